"""Archives of arrays, ``.npz``, as a corpus in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand.base.memory import check_memory
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.streams import only_chosen
from sweephand.deserializers.array import ArrayDeserializer
from sweephand.deserializers.deserializer import DerivedDeserializer, Deserializer
from sweephand.deserializers.foreign import holds_zarr
from sweephand.deserializers.format import Look, Wanted, the_only
from sweephand.deserializers.npy import served_dtype, warn_of_tokens, with_offsets
from sweephand.deserializers.tokens import cut_tokens
from sweephand.errors import DataError
from sweephand.files.local import open_regular
from sweephand.files.paths import AnyPath, RemotePath

if TYPE_CHECKING:
    from sweephand.maps.workers import OpenContext

_ZIP = b"PK\x03\x04"
_FREE_BYTES = 64 << 20  # are unpacked at once, whatever a source's limit will be


@dataclass(frozen=True, repr=False)
class _LargeArchive(DerivedDeserializer):
    """An archive that is unpacked when a source opens it, which knows its limit of memory."""

    path: Path
    wanted: Wanted
    num_bytes: int  # of its members, as the directory of the archive says

    def open_for(self, opening: OpenContext) -> Corpus:
        """Return the corpus as a source asks for it; DataError if memory does not hold it."""
        try:
            check_memory("unpacking it", self.num_bytes, opening.memory_limit)
        except ValueError as error:
            raise DataError(str(error), str(self.path)) from None
        return self._unpacked.open_for(opening)

    @cached_property
    def _unpacked(self) -> Deserializer:
        return _unpack(self.path, self.wanted)

    def _description(self) -> str:
        return self.path.name


def _size_of(path: Path) -> int:
    """Return the bytes of all members, as the archive declares them."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return sum(one.file_size for one in archive.infolist())
    except Exception as error:  # damaged bytes make zipfile raise a dozen kinds
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"the archive cannot be read: {error}", str(path)) from error


def _load(path: Path) -> dict[str, NDArray[np.generic]]:
    member = None
    arrays = {}
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            for member in archive.files:
                arrays[member] = np.asarray(archive[member])
    except Exception as error:  # damaged bytes make zipfile and NumPy raise a dozen kinds
        reason = f"the archive cannot be read: {error}"
        raise DataError(reason, str(path), stream=member) from error
    return arrays


def open_archive(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of an archive of arrays."""
    path = the_only(files)
    if isinstance(path, RemotePath):
        raise ValueError(f"{path}: archives are read from local disks only")
    num_bytes = _size_of(path)
    if num_bytes > _FREE_BYTES:
        return _LargeArchive(path, wanted, num_bytes)
    return _unpack(path, wanted)


def _unpack(path: Path, wanted: Wanted) -> Deserializer:
    arrays = _load(path)
    if wanted.are_documents:
        return _open_documents(arrays, path, wanted)
    definitions = wanted.definitions(with_offsets(dict(arrays)))
    for stream, definition in definitions.items():
        array = arrays.get(definition.field or stream)
        if array is not None:
            served = served_dtype(stream, array.dtype, definition, str(path))
            if served.name == "bfloat16":
                arrays[definition.field or stream] = array.view(served)
    data = with_offsets(arrays)
    if len(arrays) == 1:
        (only,) = arrays.values()
        warn_of_tokens(str(path), only.shape, only.dtype)
    data = only_chosen(data, definitions)
    return ArrayDeserializer(data, definitions, chunk_size=wanted.chunk_size, name=path.name)


def _open_documents(
    arrays: dict[str, NDArray[np.generic]], path: Path, wanted: Wanted
) -> Deserializer:
    """Return the only row of tokens in an archive, cut by the given rule."""
    rows = [name for name, one in arrays.items() if one.ndim == 1 and one.dtype.kind in "iu"]
    if len(rows) != 1:
        listed = ", ".join(rows) or "none"
        raise ValueError(
            f"{str(path)!r} is to hold one row of tokens, its rows of integers are: {listed}; "
            "give ArrayDeserializer the one that is meant, with its offsets"
        )
    tokens = arrays[rows[0]]
    wanted_streams = wanted.definitions(rows)
    offsets = cut_tokens(tokens, wanted.sequence_length, wanted.end_of_document)
    return ArrayDeserializer(
        {rows[0]: (tokens, offsets)},
        wanted_streams,
        chunk_size=wanted.chunk_size,
        name=path.name,
    )


def is_npz(look: Look) -> bool:
    """Return True if an archive holds arrays and is no Zarr store."""
    return look.head.startswith(_ZIP) and not holds_zarr(look.path)
