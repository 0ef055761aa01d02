"""Arrays by name in a file that runs no code: a zip archive, which `numpy.load` opens too.

Each entry is stored as an ``.npy`` file. Bits for which NumPy has no dtype, as of bfloat16, are
integers in a field whose name says what they are: ``[("bfloat16", "<u2")]``.
"""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sweephand.errors import DataError, StateError
from sweephand.files import local

Array: TypeAlias = NDArray[Any]

BITS = {
    name: np.dtype([(name, f"<u{size}")])
    for name, size in (("bfloat16", 2), ("float8_e4m3fn", 1), ("float8_e5m2", 1))
}


class Sink(Protocol):
    """A target of written bytes."""

    def write(self, data: Any, /) -> object:
        """Write all of them."""


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file; StateError if it is a link, a pipe or a device."""
    try:
        return local.open_regular(path, follow_links=False)
    except DataError as error:
        raise StateError(str(error)) from None


@dataclass(frozen=True)
class SavedArrays:
    """The content of such a file, held in main memory."""

    arrays: Mapping[str, Array]

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Self:
        """Make them of arrays, over the same memory."""
        return cls(
            {
                n: a.view(BITS[a.dtype.name]) if a.dtype.name in BITS else a
                for n, a in arrays.items()
            }
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file, or raise StateError."""
        found = {}
        try:
            with open_regular(path) as file, zipfile.ZipFile(file) as archive:
                for name in archive.namelist():
                    with archive.open(name) as entry:  # whose end compares its checksum
                        found[name.removesuffix(".npy")] = np.lib.format.read_array(entry)
        except (zipfile.BadZipFile, ValueError, EOFError, RuntimeError) as error:
            raise StateError(f"{path} is no file of arrays: {error}") from error
        return cls(found)

    def write(self, sink: Sink) -> None:
        """Write the file."""
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
            for name, array in self.arrays.items():
                with archive.open(
                    zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True
                ) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)

    def check(self, what: str, wanted: Self) -> None:
        """Raise StateError if names, dtypes or shapes differ from those expected."""
        mine, theirs = ({n: _kind(a) for n, a in one.arrays.items()} for one in (wanted, self))
        differing = [
            f"{name} is {mine.get(name, 'absent')} here and {theirs.get(name, 'absent')} there"
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
        ]
        if differing:
            more = f"; and {len(differing) - 5} more" if len(differing) > 5 else ""
            raise StateError(
                f"the checkpoint is of another {what}: {'; '.join(differing[:5])}{more}"
            )


def _kind(array: Array) -> str:
    return f"{(array.dtype.names or [array.dtype.name])[0]} {list(array.shape)}"
