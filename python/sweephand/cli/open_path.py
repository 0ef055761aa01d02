"""What lies at a path, as a corpus. A new format is one more line in `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand.deserializers import ArrayDeserializer, Deserializer, NpyDeserializer
from sweephand.errors import DataError
from sweephand.streams import StreamDef, StreamDefs

_OFFSETS = "_offsets"

Member = TypeVar("Member")


@dataclass(frozen=True)
class Wanted:
    """What a user says about a corpus that its files do not.

    Attributes
    ----------
    size_stream : str, optional
        The stream whose samples are a sequence's size.
    chunk_size : int, optional
        Sequences in a chunk.
    """

    size_stream: str | None = None
    chunk_size: int | None = None

    def definitions(self, streams: Iterable[str]) -> StreamDefs:
        """Return the definitions of all streams.

        Raises
        ------
        ValueError
            If there is no stream called `size_stream`.
        """
        names = list(streams)
        if self.size_stream is not None and self.size_stream not in names:
            raise ValueError(f"no stream {self.size_stream!r}, there are: {', '.join(names)}")
        return StreamDefs(
            **{name: StreamDef(defines_mb_size=name == self.size_stream) for name in names}
        )


@dataclass(frozen=True)
class Format:
    """One kind of data.

    Attributes
    ----------
    name : str
        For people.
    is_at : callable
        Whether a path is of this format, by its name and first bytes.
    open : callable
        Returns the corpus at a path.
    build_index : callable, optional
        Builds the index of a path and returns where it is kept; None: the format needs none.
    """

    name: str
    is_at: Callable[[Path], bool]
    open: Callable[[Path, Wanted], Deserializer]
    build_index: Callable[[Path], Path] | None = None


def format_of(path: Path) -> Format:
    """Return the format of what lies at a path.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    ValueError
        If it is of no format that is known here.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    for known in FORMATS:
        if known.is_at(path):
            return known
    names = ", ".join(known.name for known in FORMATS)
    raise ValueError(f"{str(path)!r} is of no format that is known here: {names}")


def open_path(path: Path, wanted: Wanted | None = None) -> Deserializer:
    """Return the corpus that lies at a path.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    ValueError
        If it is of no known format, or its streams do not fit each other.
    DataError
        If its bytes are wrong.
    """
    return format_of(path).open(path, wanted or Wanted())


def _begins_with(path: Path, magic: bytes) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _with_offsets(members: dict[str, Member]) -> dict[str, Member | tuple[Member, Member]]:
    """Join every member with the one that holds its offsets, if there is one."""
    return {
        name: (member, members[name + _OFFSETS]) if name + _OFFSETS in members else member
        for name, member in members.items()
        if not (name.endswith(_OFFSETS) and name.removesuffix(_OFFSETS) in members)
    }


def _open_npy(path: Path, wanted: Wanted) -> Deserializer:
    offsets = path.with_name(f"{path.stem}{_OFFSETS}.npy")
    files = [path, offsets] if offsets.exists() else [path]
    return _open_files(files, wanted)


def _open_folder(path: Path, wanted: Wanted) -> Deserializer:
    return _open_files(sorted(path.glob("*.npy")), wanted)


def _open_files(files: list[Path], wanted: Wanted) -> Deserializer:
    streams = _with_offsets({file.stem: file for file in files})
    return NpyDeserializer(streams, wanted.definitions(streams), wanted.chunk_size)


def _open_npz(path: Path, wanted: Wanted) -> Deserializer:
    streams = _with_offsets(_load_npz(path))
    return ArrayDeserializer(
        streams,
        wanted.definitions(streams),
        chunk_size=wanted.chunk_size,
        name=path.name,
    )


def _load_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    member = None
    arrays = {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            for member in archive.files:
                arrays[member] = np.asarray(archive[member])
    except Exception as error:  # damaged bytes make zipfile and NumPy raise a dozen kinds
        reason = f"the archive cannot be read: {error}"
        raise DataError(reason, str(path), stream=member) from error
    return arrays


FORMATS = (
    Format(".npy", lambda path: _begins_with(path, b"\x93NUMPY"), _open_npy),
    Format(".npz", lambda path: _begins_with(path, b"PK\x03\x04"), _open_npz),
    Format("folder of .npy", lambda path: any(path.glob("*.npy")), _open_folder),
)
