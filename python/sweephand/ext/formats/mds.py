"""Shards of MosaicML's streaming datasets (MDS), read in place.

::

    index.json   the columns, and of every shard its file and how many samples it has
    shard        u32 samples n | u32 offset[n + 1] | the columns as JSON | sample | sample | ...
    sample       u32 size of each column without a fixed one | the columns' bytes
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, StreamDef, StreamDefs
from sweephand.ext.formats.mds_index import MdsColumn, read_mds_index
from sweephand.ext.formats.mds_shard import MdsShard
from sweephand.extend import (
    Advance,
    ContentFile,
    Files,
    Keep,
    PlacedDeserializer,
    RowIds,
    SampleType,
    SourceFile,
    StreamsLike,
    UnitScan,
    add_placed,
    add_units,
    list_paths,
    samples_of,
)

_VALUE_TYPES = {
    **{8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32"},
    **{33: "int32", 34: "float32", 64: "uint64", 65: "int64", 66: "float64"},
}
_MOST_UNSEEN = 1 << 20  # samples of a damaged shard that are believed to have been there
_EXTENT_TYPES = ("<u1", "<u2", "<u4", "<u8")


class MDSDeserializer(PlacedDeserializer):
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
    index : {"auto", "cache", None}
        Place of the index: beside the shards, or in a cache folder if that is not writable;
        only in the cache folder; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a column with one integer or text in
        every sample, or one id for each sequence.

    Raises
    ------
    FileNotFoundError
        If a folder has no index.
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
        found = read_mds_index(list_paths(folders))
        self._columns = found.columns
        self._counts = found.counts
        super().__init__(found.files, streams, index=index, ids=ids)
        self.options = {"columns": [[c.name, c.encoding, c.size] for c in found.columns]}
        for name, field in self.fields.items():
            self._column(field, name)

    def guess_streams(self) -> StreamDefs:
        """Return the columns that can be served."""
        refused = {one.name: one.refusal for one in self._columns}
        self.left_out = {name: why for name, why in refused.items() if why is not None}
        served = {name: StreamDef() for name, why in refused.items() if why is None}
        if not served:
            raise DataError("there is no column that can be served", self.files[0].path)
        return StreamDefs(served)

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Read the table of a shard, and the first bytes of its samples."""
        scan = UnitScan()
        count = self._counts[file.path]
        try:
            shard = MdsShard(file, self._columns, count)
            sizes = np.diff(shard.offsets)
        except DataError as error:
            is_possible = count <= max(_MOST_UNSEEN, file.size)
            scan.add_error(error, range(count) if is_possible else None)
            shard, sizes = None, np.zeros(count if is_possible else 0, np.int64)
        if not isinstance(file, ContentFile) or not len(sizes):
            add_units(scan, sizes)
        else:  # it is read as a whole
            scan.rows, scan.num_bytes = [len(sizes)], [int(sizes.sum())]
        faults: dict[int, DataError] = {} if shard is None else shard.faults()
        for name, field in self.fields.items():
            column = self._column(field, name)
            empty = np.zeros(len(sizes), np.int64)
            begins, own, lengths, kind = empty, empty.copy(), empty.copy(), None
            if shard is not None:
                begins, own = shard.places(column, faults)
                kind, lengths = self._samples(shard, column, name, (begins, own), faults)
            own[lengths == 0] = 0
            add_placed(scan, name, kind, lengths, begins, own)
        scan.add_faults(faults)
        advance(file.size)
        return scan

    def _column(self, field: str, stream: str) -> MdsColumn:
        by_name = {one.name: one for one in self._columns}
        column = by_name.get(field)
        if column is not None and column.refusal is None:
            return column
        reason = f"there is no field {field!r}, there are: {', '.join(by_name)}"
        if column is not None:
            reason = f"the column {field!r} cannot be served: {column.refusal}"
        raise DataError(reason, self.files[0].path, stream=stream)

    def _samples(
        self,
        shard: MdsShard,
        column: MdsColumn,
        stream: str,
        places: tuple[NDArray[np.int64], NDArray[np.int64]],
        faults: dict[int, DataError],
    ) -> tuple[SampleType | None, NDArray[np.int64]]:
        """Return the type of a column, and the samples of each row; moves arrays."""
        begins, sizes = places
        definition = self.definitions[stream]
        lengths = np.ones(len(begins), np.int64)
        lengths[list(faults)] = 0
        if column.is_array:
            return _array_samples(shard, column, definition, places, lengths, faults)
        dtype = column.dtype
        if dtype is not None:
            return SampleType(dtype.name, is_ragged=True), lengths
        wanted = None if definition.dtype is None else np.dtype(definition.dtype)
        if wanted is None or wanted.kind not in "iuf":
            return SampleType("bytes", is_ragged=True), lengths
        shape = definition.sample_shape or ()
        item = wanted.itemsize * int(np.prod(shape, dtype=np.int64))
        for row in np.flatnonzero(sizes % item).tolist():
            reason = f"{sizes[row]} bytes are no whole number of {item}"
            faults.setdefault(row, shard.fault(row, reason, stream))
        lengths = np.where(lengths == 1, sizes // item, 0)
        lengths[list(faults)] = 0
        return SampleType(wanted.name, shape, is_ragged=True), lengths


def _array_samples(
    shard: MdsShard,
    column: MdsColumn,
    definition: StreamDef,
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    lengths: NDArray[np.int64],
    faults: dict[int, DataError],
) -> tuple[SampleType | None, NDArray[np.int64]]:
    """Return type and number of samples of arrays; moves their places past the headers."""
    begins, sizes = places
    known: SampleType | None = None
    dtype = column.dtype
    shape = column.array_shape
    is_fixed = dtype is not None and shape is not None
    heads = [b""] * len(begins) if is_fixed else shard.heads(begins, sizes)
    for row in np.flatnonzero(lengths).tolist():
        try:
            head_bytes, own_dtype, own_shape = _array_head(heads[row], dtype, shape)
            own = int(np.prod(own_shape, dtype=object)) * own_dtype.itemsize
            if own != sizes[row] - head_bytes:
                raise ValueError(f"an array of {own} bytes in {sizes[row] - head_bytes}")
            kind, lengths[row] = samples_of(own_dtype, own_shape, definition.sample_shape)
            if known is not None and kind != known:
                raise ValueError(f"the array is {kind}, and {known} in other samples")
        except (ValueError, IndexError) as error:
            reason = f"the column {column.name!r} is damaged: {error}"
            faults.setdefault(row, shard.fault(row, reason, column.name))
            lengths[row] = 0
            continue
        known = kind
        begins[row] += head_bytes
        sizes[row] -= head_bytes
    return known, lengths


@lru_cache(maxsize=1024)  # most arrays are alike
def _array_head(
    head: bytes, dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None
) -> tuple[int, np.dtype[Any], tuple[int, ...]]:
    """Return the size of an array's header in bytes, and its content."""
    at = 0
    if dtype is None:
        name = _VALUE_TYPES.get(head[0])
        if name is None:
            raise ValueError(f"no dtype has the number {head[0]}")
        dtype = np.dtype(name)
        at = 1
    if shape is None:
        extents = np.dtype(_EXTENT_TYPES[head[at] & 3])
        rank = head[at] >> 2
        end = at + 1 + rank * extents.itemsize
        if rank == 0 or end > len(head):
            raise ValueError(f"an array of {rank} dimensions")
        shape = tuple(np.frombuffer(head[at + 1 : end], extents).tolist())
        at = end
    return at, dtype, shape
