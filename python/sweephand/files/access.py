"""The reading of files: in place on this machine, or by requests to a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweephand.files.local import LocalFile
from sweephand.files.requests import MOST_REQUESTS, num_requests
from sweephand.files.source_file import SourceFile


@dataclass(frozen=True)
class Access:
    """Access to the files of a corpus."""

    local: list[LocalFile] | None  # the files, if all lie on this machine as they are read
    asks: bool  # whether a store is asked for some of them

    @property
    def is_local(self) -> bool:
        """True if all files are local."""
        return self.local is not None

    def threads(self, here: int = 1, chunk_bytes: int | None = None) -> int:
        """Return the number of threads that read: `here` for local files, else one per request.

        Requests may be more where the bytes of a chunk are known to be few.
        """
        if not self.asks:
            return here
        return MOST_REQUESTS if chunk_bytes is None else num_requests(chunk_bytes)


def access_to(files: Sequence[SourceFile]) -> Access:
    """Return the access to files; a single remote one decides for all."""
    local = [file for file in files if isinstance(file, LocalFile)]
    asks = not all(file.is_here for file in files)
    return Access(local if len(local) == len(files) else None, asks)
