"""The file that marks a folder as a cache, and whose bytes processes lock."""

from __future__ import annotations

import os
from pathlib import Path

MARK = "sweephand-node-cache"
_WORDS = b"sweephand node cache 2: this folder and all in it may be deleted\n"


def prepare(path: Path) -> Path:
    """Make the folder if need be, and return its marker file."""
    mark = path / MARK
    try:
        path.mkdir(parents=True, exist_ok=True)
        names = os.listdir(path)  # noqa: PTH208
        if names and MARK not in names:
            raise ValueError(
                f"the folder of a node cache must be its own, but {path} holds other things, "
                f"such as {sorted(names)[0]!r}; name an empty one, or one that does not exist"
            )
        if mark.exists() and mark.stat().st_size and mark.read_bytes() != _WORDS:
            raise ValueError(f"{path} is a node cache of another version; delete it")
        fd = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if not os.fstat(fd).st_size:
                os.pwrite(fd, _WORDS, 0)  # several processes may, as the bytes are the same
        finally:
            os.close(fd)
    except OSError as error:
        reason = f"the node cache cannot be kept here: {error.strerror}"
        raise type(error)(error.errno, reason, str(path)) from None
    return mark
