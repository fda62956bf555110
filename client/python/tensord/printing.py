"""How print shows a tensor's data: set_printoptions."""

from __future__ import annotations

import math
from typing import Any, Optional

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
_chosen: dict[str, Any] = {}


def set_printoptions(precision: Optional[int] = None, threshold: Optional[float] = None, edgeitems: Optional[int] = None,
                     linewidth: Optional[int] = None, profile: Optional[str] = None,
                     sci_mode: Optional[bool] = None) -> None:
    """How str(tensor), print and f-strings show data from now on: digits behind the point, the number of elements from
    which on the middle is left out, the elements at each edge that are shown then, characters a line, and whether numbers
    are always or never written as 1e-3. `profile` is "default", "short" or "full", which others change. Until it is
    called, NumPy's options hold. repr(tensor) shows no data. ValueError for another profile."""
    if profile is not None:
        if profile not in _PROFILES:
            from tensord.errors import InvalidArgumentError

            raise InvalidArgumentError(f"set_printoptions: profile '{profile}' is none of {', '.join(_PROFILES)}")
        _chosen.clear()
        _chosen.update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth,
             "sci_mode": sci_mode}  # fmt: skip
    _chosen.update({name: value for name, value in given.items() if value is not None})


def _numpy_options() -> dict[str, Any]:
    """The same as arguments of numpy.array2string."""
    options = {name: value for name, value in _chosen.items() if name not in ("sci_mode", "linewidth", "threshold")}
    if "linewidth" in _chosen:
        options["max_line_width"] = _chosen["linewidth"]
    if "threshold" in _chosen:
        options["threshold"] = int(min(_chosen["threshold"], 2**62))
    digits = _chosen.get("precision", 8)
    if _chosen.get("sci_mode") is True:
        options["formatter"] = {"float_kind": lambda x: f"{x:.{digits}e}"}
    elif _chosen.get("sci_mode") is False:
        options["formatter"] = {"float_kind": lambda x: f"{x:.{digits}f}"}
    return options


__all__ = ["set_printoptions"]
