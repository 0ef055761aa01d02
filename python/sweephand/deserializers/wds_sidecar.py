"""The index of DALI's ``wds2idx`` beside a tar archive: places of members without a walk.

::

    v1.2 NUMBER_OF_SAMPLES
    jpg 512 10000 a.jpg cls 11264 1 a.cls      a sample: extension, offset, size, name of each
    ...

It is used only if it agrees exactly with a walk over the headers: an order does not depend on
it. https://docs.nvidia.com/deeplearning/dali (fn.readers.webdataset)
"""

from __future__ import annotations

import tarfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import offsets_of
from sweephand.errors import DataError, SweephandHint
from sweephand.files.local import LocalFile
from sweephand.files.paths import as_path, read_file
from sweephand.files.source_file import SourceFile
from sweephand.files.urls import is_signed

_VERSION = "v1.2"
_BLOCK = 512
_MOST_END = 64 << 10  # bytes of zeros after the last member
_LOOKED_AT = 64  # headers of a local archive; of one in a store the first and the last


@dataclass(frozen=True)
class _Members:
    """The consecutive members of an archive: sample, field and place of each."""

    keys: list[str]  # of the samples
    rows: NDArray[np.int64]
    fields: list[str]
    names: list[str]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def ends(self) -> NDArray[np.int64]:
        """The places where the next header may begin."""
        return self.offsets + (self.sizes + _BLOCK - 1) // _BLOCK * _BLOCK


class _OddError(Exception):
    """The index is of no use for this archive, which is then walked without a warning."""


@dataclass(frozen=True)
class SidecarSamples:
    """The samples of an archive; see `_core.formats.TarSamples`."""

    keys: Sequence[bytes]
    begins: NDArray[np.int64]
    at: int
    _file: SourceFile
    _heads: Mapping[str, int]
    _members: _Members
    faults: Sequence[Any] = ()

    def field(
        self, name: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
        """Return the place of a field in every sample, and the first bytes that are wanted."""
        members = self._members
        chosen = [number for number, field in enumerate(members.fields) if field == name]
        rows = members.rows[chosen]
        offsets, sizes, counts = np.zeros((3, len(self.keys)), np.int64)
        offsets[rows], sizes[rows] = members.offsets[chosen], members.sizes[chosen]
        counts[rows] = np.minimum(sizes[rows], self._heads.get(name, 0))
        wanted = rows[counts[rows] > 0].tolist()
        heads = [self._file.read(int(offsets[row]), int(counts[row])) for row in wanted]
        return (
            offsets,
            sizes,
            np.concatenate([np.empty(0, np.uint8), *heads]),
            offsets_of(counts),
        )


def read_sidecar(file: SourceFile, heads: Mapping[str, int]) -> SidecarSamples | None:
    """Return the samples in the index beside an archive; None if the index is of no use.

    `heads` are the fields whose first bytes are wanted, and how many.
    """
    is_here = isinstance(file, LocalFile)
    if not is_here and (heads or is_signed(file.spec)):
        return None  # a request for each member, or none that is signed
    archive = as_path(file.spec)
    beside = archive.with_name(archive.name.partition(".")[0] + ".idx")
    try:
        text = read_file(beside)
    except (OSError, DataError, ValueError):
        return None  # usually there is none
    try:
        if not text.startswith(_VERSION.encode()):
            raise _OddError  # of another tool, or an older one
        members = _parse(text)
        begins = _begins(members, file.size)
        _check(file, members, most=_LOOKED_AT if is_here else 2)
    except _OddError:
        return None
    except (ValueError, tarfile.TarError, DataError) as error:
        reason = error.reason if isinstance(error, DataError) else f"{error}"
        warnings.warn(
            f"{beside}: the index is passed over, as it is not of this archive: {reason}; "
            "delete it, or make it anew by wds2idx",
            SweephandHint,
            stacklevel=2,
        )
        return None
    keys = [key.encode() for key in members.keys]
    return SidecarSamples(keys, begins, int(members.ends[-1]), file, dict(heads), members)


def _parse(text: bytes) -> _Members:
    """Return the content of the index."""
    head, _, body = text.partition(b"\n")
    count, num_lines = head.split(b" ")[-1], body.count(b"\n")
    if count != str(num_lines).encode():
        raise ValueError(f"it says {count.decode(errors='replace')} samples, not {num_lines}")
    words = body.decode("latin-1").split()
    names = words[3::4]
    try:
        offsets, sizes = (
            np.array([int(one) for one in words[at::4]], np.int64) for at in (1, 2)
        )
    except (ValueError, OverflowError):
        raise _OddError from None  # a name with a blank
    # Names that are escaped, or not of ASCII, are not as the archive has them.
    if len(words) % 4 or not names or not body.isascii() or b"\\" in body:
        raise _OddError
    keys: list[str] = []
    rows = []
    fields = []
    for name in names:
        base = name.rfind("/") + 1
        dot = name.find(".", base)
        if dot <= base or dot + 1 == len(name) or name.startswith("__"):
            raise _OddError  # a member of no sample
        if not keys or keys[-1] != name[:dot]:
            keys.append(name[:dot])
        rows.append(len(keys) - 1)
        fields.append(name[dot + 1 :].lower())
    if len(set(keys)) < len(keys) or len(set(zip(rows, fields, strict=True))) < len(rows):
        raise _OddError  # a fault, which the walk reports with its place
    return _Members(keys, np.array(rows), fields, names, offsets, sizes)


def _begins(members: _Members, size: int) -> NDArray[np.int64]:
    """Return the place of every sample's first header, as far as it is in the index."""
    if max(members.offsets.max(), members.sizes.max()) > size:  # sums would overflow
        raise ValueError(f"a member ends beyond the archive, which ends at byte {size}")
    gaps = members.offsets - np.append(0, members.ends[:-1])
    if (gaps < _BLOCK).any() or (members.sizes < 0).any() or (members.offsets % _BLOCK).any():
        raise ValueError("its members do not lie one after the other")
    firsts = np.flatnonzero(np.diff(members.rows, prepend=-1))
    # More than a header, and perhaps that of a folder: a header about the next one, or a file
    # of no sample. Which entry begins there?
    if (gaps[firsts] > 2 * _BLOCK).any():
        raise _OddError
    return members.offsets[firsts] - _BLOCK


def _check(file: SourceFile, members: _Members, most: int) -> None:
    """Refuse an index that contradicts the first headers, the last headers, or the end."""
    end, last = int(members.ends[-1]), members.names[-1]
    if end + _BLOCK > file.size:
        raise ValueError(f"{last} ends at byte {end}, the archive at {file.size}")
    if file.size - end > _MOST_END or file.read(end, file.size - end).any():
        raise ValueError(f"there are members after {last}, its last one")
    count = len(members.names)
    for number in np.linspace(0, count - 1, min(most, count)).astype(np.int64).tolist():
        name, offset = members.names[number], int(members.offsets[number])
        block = file.read(offset - _BLOCK, _BLOCK).tobytes()
        header = tarfile.TarInfo.frombuf(block, "ascii", "surrogateescape")
        is_it = header.isreg() and header.size == members.sizes[number]
        if not is_it or header.name != name:
            raise ValueError(
                f"byte {offset} has not the {members.sizes[number]} bytes of {name}"
            )
