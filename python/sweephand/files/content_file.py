"""A compressed file as the file that it unpacks to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sweephand.errors import DataError
from sweephand.files.inflate import InflatedFile
from sweephand.files.source_file import SourceFile


@dataclass(frozen=True)
class ContentFile(SourceFile):
    """Content of a compressed file, of known size; it is as old as that file."""

    content: InflatedFile = field(compare=False)

    @property
    def is_here(self) -> bool:
        """True if its bytes are local."""
        return self.content.file.is_here

    @property
    def spec(self) -> str:
        """Path or URL that finds the file again."""
        return self.content.file.spec

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill an array with the bytes from `offset` on; see `SourceFile`."""
        end = self.content.read_into(offset, out)
        if end < len(out):
            raise DataError(
                f"it unpacks to {offset + end} bytes, not to {self.size}", self.path
            )

    def check_unchanged(self) -> None:
        """Raise StaleError if the file is not the listed file."""
        self.content.file.check_unchanged()
