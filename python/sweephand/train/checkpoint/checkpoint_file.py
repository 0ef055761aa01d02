"""Files of a checkpoint: opened without blocking, and hashed as they are written."""

from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from sweephand.errors import DataError, StateError
from sweephand.files import local


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading, and never block on a pipe or device.

    StateError is raised if it is no regular file, or a link, which may lead out of the folder.
    """
    try:
        return local.open_regular(path, follow_links=False)
    except DataError as error:
        raise StateError(str(error)) from None


class Sink(Protocol):
    """Where bytes are written to."""

    def write(self, data: Any, /) -> object:
        """Write all of them."""


class SavedFile(Protocol):
    """The content of one file of a checkpoint, held in main memory."""

    def write(self, sink: Sink, /) -> None:
        """Write it."""


class Hash(Protocol):
    """A hash of `hashlib`."""

    def update(self, data: Any, /) -> None:
        """Add bytes."""


class HashingSink:
    """A sink that hashes all bytes, and passes them on to a file, if any.

    Attributes
    ----------
    size : int
        Number of bytes so far.
    """

    def __init__(self, digest: Hash, file: BinaryIO | None = None) -> None:
        self.size = 0
        self._digest = digest
        self._file = file

    def write(self, data: Any, /) -> int:
        """Add bytes."""
        if self._file is not None:
            self._file.write(data)
        self._digest.update(data)
        count = memoryview(data).nbytes
        self.size += count
        return count

    def flush(self) -> None:
        """Flush the file."""
        if self._file is not None:
            self._file.flush()
