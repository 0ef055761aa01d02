"""Shards of MosaicML's streaming datasets (MDS), read in place.

::

    index.json   the columns, and of every shard its file and how many samples it has
    shard        u32 samples n | u32 offset[n + 1] | the columns as JSON | sample | sample | ...
    sample       u32 size of each column without a fixed one | the columns' bytes
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sweephand import DataError
from sweephand.extend import (
    AnyPath,
    ArrayHead,
    Compression,
    ContentFile,
    FileList,
    Files,
    FoundRecords,
    Gather,
    InflatedFile,
    Keep,
    Look,
    RecordDeserializer,
    RowIds,
    SampleType,
    SourceFile,
    StreamsLike,
    as_path,
    file_at,
    find_files,
    gatherer,
    list_paths,
    offsets_of,
    pass_heads,
    read_file,
)

_MOST_BYTES = 2**32  # of a shard, whose offsets have 32 bits
_MOST_HEAD = 2 + 8 * 8  # bytes before the values of an array
_BYTES = ("bytes", "str", "json", "jpeg", "png", "str_int", "str_float", "str_decimal")
_DTYPES = {  # by the number that an array has for it
    **{8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32"},
    **{33: "int32", 34: "float32", 64: "uint64", 65: "int64", 66: "float64"},
}
_SCALARS = {"int": "int64", **{name: name for name in _DTYPES.values()}}
_NO_NAMES = ("\0", "\\", "://", "?", "*", "[", "{")  # of other systems, and of patterns
_PACKINGS: dict[str, Compression] = {"zstd": "zstd", "gz": "gzip"}


class MDSDeserializer(RecordDeserializer):
    """Serve the samples of MosaicML's streaming shards in place, each as a sequence.

    Nothing is copied to a cache, and no shard is deleted. Plain shards are mapped into memory
    and read in any order; compressed ones are decompressed as a whole, a shard being a chunk.

    Parameters
    ----------
    folders : str, path, or sequence of them
        Paths or URLs of folders with an ``index.json``, which may also be the result of
        Mosaic's ``merge_index`` over subfolders.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all columns. "int" and the other numbers are one sample; "str", "bytes",
        "json", "jpeg" and "png" one sample of ``bytes``, or, with a ``dtype``, a sequence of
        the numbers in the bytes, as in token datasets. Arrays are sequences of their rows, or
        with ``shape`` of samples of that shape.
    index, ids
        As in `ParquetDeserializer`.

    Raises
    ------
    DataError
        If the index is impossible, or a shard is missing; when it is opened, beyond
        ``max_errors``, if a shard contradicts the index, or a sample is damaged.

    References
    ----------
    https://docs.mosaicml.com/projects/streaming

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.MDSDeserializer("train/", ["tokens"])  # doctest: +SKIP
    """

    format = "mds 1"

    def __init__(
        self,
        folders: Files,
        streams: StreamsLike | None = None,
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        self._columns: list[_Column] = []  # in the order in which a sample has them
        self._counts: dict[str, int] = {}  # samples of each shard
        files = self._find_shards([_index_at(as_path(one)) for one in list_paths(folders)])
        self.left_out = {one.name: one.refusal for one in self._columns if one.refusal}
        self.samples = {
            one.name: None
            if one.is_array  # whose heads say it
            else SampleType("bytes" if one.dtype is None else one.dtype.name)
            for one in self._columns
            if not one.refusal
        }
        super().__init__(files, streams, index=index, ids=ids)
        self.options = {"columns": [[c.name, c.encoding, c.size] for c in self._columns]}

    def _find_shards(self, indexes: list[AnyPath]) -> FileList:
        """Read indexes, and return the shards that are there: plain, or else compressed."""
        shards: list[tuple[AnyPath, int, int, Compression | None]] = []
        for path in indexes:
            for shard in _shards_in(path):
                try:
                    columns = _columns_of(shard)
                    shards.append(_shard_of(path, shard))
                except (KeyError, TypeError, ValueError) as error:
                    reason = f"the index says what cannot be: {error}"
                    raise DataError(reason, str(path)) from None
                if columns != (self._columns or columns):
                    reason = "the columns of its shards are not those of the others: all of a "
                    raise DataError(f"{reason}corpus must agree", str(path))
                self._columns = columns
        if not shards:
            raise DataError("the index names no shards", str(indexes[0]))
        try:
            found = find_files([os.fspath(place) for place, *_ in shards], as_given=True)
        except FileNotFoundError as error:
            reason = f"the index names a shard that is not there: {error}"
            raise DataError(reason, str(indexes[0])) from error
        files: list[SourceFile] = []
        for file, (_, count, size, packing) in zip(found.files, shards, strict=True):
            self._counts[file.path] = count
            if packing is not None:
                content = InflatedFile(file, packing, most_bytes=size)
                file = ContentFile(file.path, file.name, size, file.tag, content)
            files.append(file)
        return FileList(files)

    def count_records(self, file: SourceFile) -> int:
        """Return the samples of a shard by the index."""
        return self._counts[file.path]

    def find_all(self, file: SourceFile) -> FoundRecords:
        """Read the table of a shard, and the first bytes of its samples."""
        count = self._counts[file.path]
        if file.size < 4 * (count + 2):
            raise DataError("the shard ends within its table; it was cut", offset=0)
        gather = gatherer(file)
        head = gather(np.array([0]), np.array([4 * (count + 2)])).view("<u4").astype(np.int64)
        if head[0] != count:
            reason = f"the shard has {head[0]} samples, and the index says {count}"
            raise DataError(reason, offset=0)
        offsets = head[1:]
        sample_bytes = np.diff(offsets)
        wrong = np.flatnonzero(sample_bytes < 0)
        if len(wrong) or offsets[0] < head.nbytes // 2 or offsets[-1] != file.size:
            raise DataError(
                "the offsets of samples do not ascend to the end of the shard: it was cut, or "
                "has more than 4 GiB, for which its offsets have no room",
                offset=4 + 4 * (int(wrong[0]) if len(wrong) else 0),
            )
        is_fixed = np.array([one.size is not None for one in self._columns])
        sizes = np.tile([one.size or 0 for one in self._columns], (count, 1))
        head_bytes = 4 * int((~is_fixed).sum())
        is_long = sample_bytes >= head_bytes
        words = gather(offsets[:-1][is_long], np.full(int(is_long.sum()), head_bytes))
        sizes[np.ix_(is_long, ~is_fixed)] = words.view("<u4").reshape(
            int(is_long.sum()), head_bytes // 4
        )
        is_whole = is_long & (head_bytes + sizes.sum(axis=1) == sample_bytes)
        reason = "the columns of the sample are not as long as the sample is"
        faults = {
            row: DataError(reason, offset=int(offsets[row]))
            for row in np.flatnonzero(~is_whole).tolist()
        }
        sizes[~is_whole] = -1
        begins = (offsets[:-1] + head_bytes)[:, None] + np.cumsum(sizes, axis=1) - sizes
        numbers = {one.name: number for number, one in enumerate(self._columns)}
        found = FoundRecords({}, faults)
        for name, field in self.fields.items():
            number = numbers[field]
            found.places[name] = np.stack([begins[:, number], sizes[:, number]], axis=1)
            if self._columns[number].is_array:
                wanted = self.definitions[name].sample_shape
                _pass_heads(self._columns[number], name, wanted, gather, found)
        return found


@dataclass(frozen=True)
class _Column:
    """One column of all samples."""

    name: str
    encoding: str
    size: int | None  # bytes in every sample; None: each sample says it
    dtype: np.dtype[Any] | None  # None for bytes, or if each array has its own
    is_array: bool
    shape: tuple[int, ...] | None  # of arrays, if all have the same

    @property
    def refusal(self) -> str:
        """Reason to refuse the column; empty if it can be served."""
        if self.encoding == "pkl":
            return "it holds pickled objects, which are never loaded"
        if self.encoding in _BYTES or self.is_array or self.dtype is not None:
            return ""
        return f"its encoding {self.encoding!r} is not read here"


def _index_at(path: AnyPath) -> AnyPath:
    return path if path.name == "index.json" else path / "index.json"


def is_mds(look: Look) -> bool:
    """Return True if a folder, or its index, is of shards in this format."""
    file = file_at(_index_at(look.path))
    content = b"" if file is None else file.head(1 << 16)
    return b'"mds"' in content and b'"shards"' in content


def _shards_in(path: AnyPath) -> list[dict[str, Any]]:
    try:
        index = json.loads(read_file(path))
        version, shards = index["version"], list(index["shards"])
        if not all(isinstance(shard, dict) for shard in shards):
            raise TypeError("a shard is an object")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"this is no index of shards: {error}", str(path)) from None
    if version != 2:
        raise DataError(f"the index has version {version!r:.20}, and 2 is read", str(path))
    return shards


def _columns_of(shard: dict[str, Any]) -> list[_Column]:
    if shard["format"] != "mds":
        raise ValueError(f"a shard has the format {shard['format']!r:.20}, not 'mds'")
    keys = "column_names", "column_encodings", "column_sizes"
    columns = [_column_of(*one) for one in zip(*(shard[key] for key in keys), strict=True)]
    if len({one.name for one in columns}) < len(columns):
        raise ValueError("two columns have one name")
    return columns


def _column_of(name: object, encoding: object, size: object) -> _Column:
    if not (isinstance(name, str) and isinstance(encoding, str)):
        raise TypeError("names and encodings of columns are texts")
    kind, *rest = encoding.split(":")
    is_array = kind == "ndarray"
    scalar = _SCALARS.get((rest or [""])[0] if is_array else encoding)
    shape = tuple(map(int, rest[1].split(","))) if is_array and len(rest) > 1 else None
    if shape is not None and min(shape) < 1:
        raise ValueError(f"column {name!r} has arrays of shape {shape}")
    own = None if size is None else _count(size) or None
    dtype = None if scalar is None else np.dtype(scalar)
    return _Column(name, encoding, own, dtype, is_array, shape)


def _shard_of(
    path: AnyPath, shard: dict[str, Any]
) -> tuple[AnyPath, int, int, Compression | None]:
    """Return the place of a shard, its samples, its bytes, and how it is compressed."""
    raw, packed = shard["raw_data"], shard.get("zip_data")
    counts = _count(shard["samples"]), _count(raw["bytes"])
    place = path.parent / _name_below(raw["basename"])
    if packed is None or place.exists():
        return place, *counts, None
    packing = _PACKINGS.get(str(shard["compression"]).partition(":")[0])
    if packing is None:
        raise ValueError(
            f"shards are compressed by {shard['compression']!r:.20}, and zstd and gz are read "
            "here; unpack them"
        )
    return path.parent / _name_below(packed["basename"]), *counts, packing


def _count(number: object) -> int:
    if type(number) is not int or not 0 <= number < _MOST_BYTES:
        raise ValueError(f"{number!r:.20} is no count")
    return number


def _name_below(name: object) -> str:
    """Return the name of a shard: a path below the folder of the index, as merging makes."""
    is_path = isinstance(name, str) and not any(one in name for one in _NO_NAMES)
    if not is_path or any(part in ("", ".", "..") for part in str(name).split("/")):
        raise ValueError(f"{name!r:.40} is no name of a file in the folder, or below it")
    return str(name)


def _pass_heads(
    column: _Column,
    stream: str,
    wanted: tuple[int, ...] | None,
    gather: Gather,
    found: FoundRecords,
) -> None:
    begins, sizes = found.places[stream].T
    places = begins.copy()
    is_fixed = column.dtype is not None and column.shape is not None
    some = np.clip(sizes, 0, 0 if is_fixed else _MOST_HEAD)
    content = gather(begins, some).tobytes()
    ends = offsets_of(some).tolist()
    heads = {
        row: content[ends[row] : ends[row + 1]] for row in np.flatnonzero(sizes >= 0).tolist()
    }
    kind, wrong = pass_heads(
        heads,
        lambda head, _: _array_head(head, column.dtype, column.shape),
        wanted,
        begins,
        sizes,
    )
    if kind is not None:
        found.samples[stream] = kind
    for row, reason in wrong.items():
        reason = f"the column {column.name!r} is damaged: {reason}"
        lost = DataError(reason, offset=int(places[row]), stream=stream)
        found.faults.setdefault(row, lost)


@lru_cache(maxsize=1024)  # most arrays are alike
def _array_head(
    head: bytes, dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None
) -> ArrayHead:
    """Return the size of an array's head in bytes, and its content."""
    at = 0
    if dtype is None:
        name = _DTYPES.get(head[0])
        if name is None:
            raise ValueError(f"no dtype has the number {head[0]}")
        dtype, at = np.dtype(name), 1
    if shape is None:
        extents, rank = np.dtype(f"<u{1 << (head[at] & 3)}"), head[at] >> 2
        end = at + 1 + rank * extents.itemsize
        if rank == 0 or end > len(head):
            raise ValueError(f"an array of {rank} dimensions")
        shape = tuple(np.frombuffer(head[at + 1 : end], extents).tolist())
        at = end
    return at, dtype, shape
