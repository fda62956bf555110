"""Tensors that processes share: published by a user under a name, attached by others without a copy.

    tensord.publish("weights", model.state_dict(), readers=["bob"])     # alice
    weights = tensord.attach("weights", owner="alice")                  # bob, in another process

docs/sharing.md says how long they live and who may see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Union

import _tensord
from _tensord import Tensor

from tensord.errors import InvalidArgumentError


class Publication(NamedTuple):
    """What is published under one name. `readers` is told to the owner only."""

    owner: str
    name: str
    version: int  # grows whenever anything is published
    tensors: int
    bytes: int
    holders: int  # tensors of sessions that share one of them
    saved: bool  # a restart of the daemon finds it again
    readers: tuple[str, ...]


def publish(name: str, tensors: Union[Tensor, Mapping[str, Tensor]], *, readers: Iterable[str] = ()) -> int:
    """Gives a tensor, or several by their keys, a name by which this user's other processes can attach them, and those
    of the users in `readers`; with "*" those of all users. Returns the version.

    It waits until they are computed, and saved if the daemon has a --state-dir. What had the name before is replaced by
    all of them at once; who has attached that keeps it. Whatever is assigned to a tensor afterwards goes into memory of
    its own, so others see no change. They stay when this process has ended, until unpublish().

    PermissionDeniedError if the daemon does not know this user; ResourceExhaustedError above --max-published-bytes;
    InvalidArgumentError for a tensor that is divided among devices or has sizes that vary.
    """
    if isinstance(readers, str):
        raise InvalidArgumentError(f"publish: readers is a list of users, as in readers=[{readers!r}]")
    several = {"": tensors} if isinstance(tensors, Tensor) else dict(tensors)
    return _tensord._publish(name, list(several.items()), list(readers))


def attach(name: str, *, owner: str = "") -> Union[Tensor, dict[str, Tensor]]:
    """What `owner`, this user if not said, has published: a tensor, or a dict if several were published. No data moves:
    it is the same memory for all. What is assigned to such a tensor goes into memory of its own.

    NotFoundError if there is nothing of that name that this user may attach.
    """
    several = dict(_tensord._attach(name, owner))
    return several[""] if list(several) == [""] else several


def published() -> list[Publication]:
    """What this user may attach, by owner and name."""
    return [Publication(*row[:-1], tuple(row[-1])) for row in _tensord._published()]


def unpublish(name: str) -> None:
    """Takes back what this user has published, on disk as well. Who has attached it keeps it. NotFoundError if there is
    nothing of that name."""
    _tensord._unpublish(name)
