"""Parts of an HDF5 file in other files: links, virtual data sets, external raw bytes.

HDF5 would open whatever file is named there, or take this one for it. So links are followed
here, one by one, and none of another file is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.extend import OptionalModule, open_regular

h5py = OptionalModule("h5py", extra="hdf5")

_MOST_LINKS = 64  # soft ones on the way to a data set


def find_object(file: Any, path: str) -> Any | None:
    """Return the data set or group that has a path; None if there is none."""
    place, names = file, _names(path)
    num_links = 0
    while names:
        name = names.pop(0)
        if not isinstance(place, h5py.Group):
            return None
        link = place.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise ValueError(
                f"{name!r} is a link to {link.path!r} in the file {link.filename!r}, and links "
                "to other files are not followed: give that file itself"
            )
        if isinstance(link, h5py.SoftLink):
            num_links += 1
            if num_links > _MOST_LINKS:
                raise ValueError(f"{path!r} is a link that leads in a circle")
            place = file if link.path.startswith("/") else place
            names = _names(link.path) + names
        elif link is None:
            return None
        else:
            place = place[name]
    return place


def check_own(array: Any) -> None:
    """Refuse a data set that is made of other data sets."""
    if not array.is_virtual:
        return
    sources = array.virtual_sources()
    origin = f", of {sources[0].dset_name!r} in {sources[0].file_name!r}" if sources else ""
    raise ValueError(
        f"it is a virtual data set{origin}, and other data sets are not opened for it: give "
        "the files that it is made of, or a copy that h5py has read"
    )


def elsewhere(array: Any) -> list[tuple[str, int, int]]:
    """Return the places of external raw bytes: name, offset and size."""
    made = array.id.get_create_plist()
    found = [made.get_external(number) for number in range(made.get_external_count())]
    return [(os.fsdecode(name), int(offset), int(size)) for name, offset, size in found]


@dataclass(frozen=True)
class ExternalArray:
    """A data set whose raw bytes are in other files, which a user has allowed."""

    array: Any  # the source of dtype and shape
    folder: str  # what names of files are relative to
    chunks: None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return tuple(map(int, self.array.shape))

    @property
    def dtype(self) -> Any:
        """The dtype of its elements."""
        return self.array.dtype

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Return a selection of the rows."""
        begin, end, _ = rows.indices(len(self.array))
        width = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        content = b"".join(self._pieces(begin * width, max(begin, end) * width))
        return np.frombuffer(content, self.dtype).reshape(-1, *self.shape[1:])

    def _pieces(self, begin: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of a range, from one file after the other."""
        first = 0  # byte of the data set that is the first of a file
        for name, offset, size in elsewhere(self.array):
            start, stop = max(begin, first), min(end, first + size)
            if start < stop:
                with open_regular(Path(self.folder, name)) as file:
                    file.seek(offset + start - first)
                    piece = file.read(stop - start)
                if len(piece) < stop - start:
                    raise ValueError(f"the file {name!r} ends before its raw bytes do")
                yield piece
            first += size
        if end > max(begin, first):
            raise ValueError(f"its files have {first} of {end} bytes")


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]
