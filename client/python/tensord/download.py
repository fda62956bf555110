"""Tensors from the network: a file that is fetched once, and kept."""

from __future__ import annotations

import os
from pathlib import Path

from _tensord import Tensor

from tensord.errors import InvalidArgumentError, UnavailableError

_SECONDS = 60.0


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tensord" / "downloads"


def _fetch(url: str, into: Path, timeout: float) -> None:
    import shutil  # here, as they take longer to import than all of tensord
    import tempfile
    import urllib.error
    import urllib.request

    into.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place, so that nobody finds a part of it there.
    with tempfile.NamedTemporaryFile(dir=into.parent, prefix=into.name, delete=False) as part:
        try:
            with urllib.request.urlopen(url, timeout=timeout) as answer:
                shutil.copyfileobj(answer, part)
            part.close()
            os.replace(part.name, into)
        except BaseException as error:
            part.close()
            os.unlink(part.name)
            if isinstance(error, (urllib.error.URLError, OSError)):
                raise UnavailableError(f"from_url: {url}: {error}") from error
            raise


def from_url(url: str, gunzip: bool = False, *, timeout: float = _SECONDS) -> Tensor:
    """The bytes behind a URL (http, https or file), as uint8 [n]; those in the gzip file with `gunzip`.

    They are kept in $XDG_CACHE_HOME/tensord/downloads (~/.cache without it) under a hash of the URL, and are not fetched
    again while that is there. UnavailableError if they cannot be fetched, ValueError for a URL of another kind or if what
    is to be unpacked is no gzip file.
    """
    import gzip
    import hashlib

    if url.split(":", 1)[0].lower() not in ("http", "https", "file"):
        raise InvalidArgumentError(f"from_url: '{url}' is no URL of http, https or file")
    kept = _folder() / hashlib.sha256(url.encode()).hexdigest()
    if not kept.exists():
        _fetch(url, kept, timeout)
    data = kept.read_bytes()
    if gunzip:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise InvalidArgumentError(f"from_url: {url} is no gzip file: {error}") from error
    return Tensor(data)


__all__ = ["from_url"]
