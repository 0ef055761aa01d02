"""A selection of a TFDS folder as a corpus, in TFDS' own order or ours."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, Deserializer, StreamDefs
from sweephand.ext.tfds.builder_info import BuilderInfo, FileInstruction
from sweephand.ext.tfds.features import Feature
from sweephand.ext.tfds.read_order import ExampleIds, ReadOrder
from sweephand.ext.tfds.records import RecordFiles
from sweephand.extend import (
    ColumnData,
    Keep,
    Ledger,
    SampleType,
    Sizing,
    StoredCorpus,
    StoredReader,
    _core,
    access_to,
    brief,
    chunks,
    chunks_between,
    column_of_bytes,
    decode_examples,
    describe_stream,
    make_chunk,
    offsets_of,
    read_file,
    size_stream,
)

_MOST_TENSOR_BYTES = 1 << 30


class ExampleReader:
    """Reads examples by their number in the selection."""

    def __init__(
        self,
        features: Mapping[str, Feature],
        files: RecordFiles,
        rows: Sequence[FileInstruction],
        ids: ExampleIds | Literal[False],
        ledger: Ledger,
    ) -> None:
        self._features = list(features.values())
        self._fields = {name: (one.name, _sample_type(one)) for name, one in features.items()}
        self._files = files
        self._ids = ids
        self._ledger = ledger
        self._starts = offsets_of([row.take for row in rows])
        self._skips = np.array([row.skip for row in rows], np.int64)
        numbers = {path: number for number, path in enumerate(files.paths)}
        self._row_files = np.array([numbers[row.filename] for row in rows], np.int64)

    def fetch(self, numbers: NDArray[np.uint64]) -> _core.read.Chunk:
        """Return the examples with these numbers, without damaged examples in the budget."""
        columns, wrong = self.read(numbers.astype(np.int64))
        for error in wrong.values():
            self._ledger.add(error)
        # Only chunks are held for longer than a minibatch.
        owned = not access_to(self._files.files).is_local
        return make_chunk(columns, owned=owned, skipped=sorted(wrong))

    def read(self, numbers: NDArray[np.int64]) -> tuple[list[ColumnData], dict[int, DataError]]:
        """Return the streams of examples, and the errors of damaged examples."""
        rows = np.searchsorted(self._starts, numbers, side="right") - 1
        places = numbers - self._starts[rows] + self._skips[rows]
        files = self._row_files[rows]
        records, begins = self._files.read(files, places)

        def locate(error: DataError) -> DataError:
            """Return an error with the file and place of its example."""
            at = int(error.sequence or 0)
            path, place = self._files.paths[files[at]], int(places[at])
            return type(error)(error.reason, path, int(begins[at]), None, error.stream, place)

        try:
            columns, wrong = decode_examples(self._fields, records, file="")
        except DataError as error:
            raise locate(error) from None
        columns = [
            _unpack(name, feature, column, wrong)
            for name, feature, column in zip(self._fields, self._features, columns, strict=True)
        ]
        if self._ids:
            ids = self._ids.names(numbers)
            columns.append(column_of_bytes([os.fsencode(one) for one in ids]))
        return columns, {at: locate(error) for at, error in wrong.items()}


def _sample_type(feature: Feature) -> SampleType:
    if feature.encoding is not None:
        return SampleType("bytes")
    return SampleType(feature.stored, feature.shape, feature.is_ragged)


def _unpack(
    name: str, feature: Feature, column: ColumnData, wrong: dict[int, DataError]
) -> ColumnData:
    """Return a column in the type of its feature: unsigned again, or unpacked from bytes."""
    if feature.encoding is None:
        if feature.dtype == np.uint64 and column.values is not None:
            values = column.values.view(np.uint64)
            return replace(column, values=values, dtype=values.dtype)
        return column
    content = np.asarray(column.values)
    blank = np.zeros((0 if feature.is_ragged else 1, *feature.shape), feature.dtype)
    tensors = [blank[:0]]
    for at, (begin, end) in enumerate(pairwise(np.asarray(column.element_offsets).tolist())):
        tensor = blank
        if at not in wrong:
            try:
                tensor = _decode(feature, content[begin:end].tobytes())
            except ValueError as error:
                wrong[at] = DataError(str(error), stream=name, sequence=at)
        tensors.append(tensor)
    values = np.concatenate(tensors)
    return ColumnData(
        values,
        values.dtype,
        feature.shape,
        len(values),
        offsets_of([len(one) for one in tensors[1:]]) if feature.is_ragged else None,
    )


def _decode(feature: Feature, content: bytes) -> NDArray[np.generic]:
    """Return the tensor in one value: its samples."""
    sample = math.prod(feature.shape) * feature.dtype.itemsize
    if feature.encoding == "zlib":
        content = _unzip(content, _MOST_TENSOR_BYTES if feature.is_ragged else sample)
    fits = len(content) % max(1, sample) == 0 if feature.is_ragged else len(content) == sample
    if not fits:
        raise ValueError(
            f"the tensor has {len(content)} bytes, its shape wants "
            f"{'a multiple of ' if feature.is_ragged else ''}{sample}"
        )
    stored = np.frombuffer(content, feature.dtype.newbyteorder("<"))
    return stored.astype(feature.dtype).reshape(-1, *feature.shape)


def _unzip(content: bytes, most_bytes: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(content, most_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"the tensor is damaged: {error}") from None
    if not unpacker.eof:
        raise ValueError(f"the tensor is cut, or unpacks to more than {most_bytes} bytes")
    return unpacked


class Dataset(Deserializer):
    """The selected examples, each a sequence of one sample.

    A source with ``randomize=False`` delivers them in the exact order of TFDS, one pass per
    sweep; any position is found in a time that grows with the logarithm of the number of
    shards. With ``randomize=True`` it is the source's own timeline over the same examples. Made
    by `load`.

    Streams have the names of the features, nested ones joined by ``/``. A feature of unknown
    length is a stream with any number of samples for an example, of which an example still
    counts as one. Images and encoded sounds are ``bytes`` unless they have a decoder.

    Attributes
    ----------
    info : BuilderInfo
    shuffle_seed : int or None
        The seed of the shuffle of files: the given one, or one that was drawn.

    Examples
    --------
    >>> import sweephand as sh
    >>> config = sh.tfds.ReadConfig(shuffle_seed=7)
    >>> dataset = sh.tfds.load("mnist/3.0.1", "train", shuffle_files=True, read_config=config)
    >>> [dataset.find(name) for name in dataset.ids(3, 6)]
    [3, 4, 5]
    """

    def __init__(
        self,
        info: BuilderInfo,
        order: ReadOrder,
        split_names: Sequence[str],
        features: Mapping[str, Feature],
        definitions: StreamDefs,
        *,
        add_tfds_id: bool,
        keep: Keep = "auto",
    ) -> None:
        self.info = info
        self._order = order
        self._split_names = split_names
        self._features = features
        self._definitions = definitions
        self._add_id = add_tfds_id
        self._keep = keep
        self._ids = ExampleIds(order.rows)

    def __len__(self) -> int:
        """Return the number of examples of one pass."""
        return len(self._order)

    @property
    def file_instructions(self) -> list[FileInstruction]:
        """Ranges that are read of each file, in the order before any shuffle of files."""
        return list(self._order.rows)

    @property
    def shuffle_seed(self) -> int | None:
        """The seed of the shuffle of files; None without a shuffle."""
        return self._order.shuffle_seed

    def ids(self, start: int, stop: int, *, number: int = 0) -> list[str]:
        """Return the ids of the examples at positions ``[start, stop)`` of a pass.

        Parameters
        ----------
        start, stop : int
        number : int
            Which pass, from 0: the sweep of a source.

        Raises
        ------
        IndexError
            If the positions reach past the end of the pass.
        """
        rows, places = self._order.take(start, stop - start, number=number)
        return [
            self._ids.of(row, n) for row, n in zip(rows.tolist(), places.tolist(), strict=True)
        ]

    def find(self, example_id: str, *, number: int = 0) -> int:
        """Return the position of an example in a pass; the first, if it comes several times.

        Raises
        ------
        KeyError
            If no selected example has the id.
        """
        found = self._ids.find(example_id)
        return min(self._order.find(row, place, number=number) for row, place in found)

    def label_names(self, stream: str) -> list[str]:
        """Return the names of the classes of a label, by their number.

        Raises
        ------
        FileNotFoundError
            If the folder has no names for it.
        """
        name = f"{stream.replace('/', '-')}.labels.txt"
        return read_file(self.info.data_dirs[0] / name).decode().splitlines()

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read; the index is built if need be."""
        if self._ids.repeat():
            raise ValueError(
                "the split selects an example twice, so that its id is not unique; overlapping "
                "parts can be listed, but not served"
            )
        splits = [self.info.splits.stored[name] for name in self._split_names]
        files = RecordFiles(splits, self._keep)
        examples = ExampleReader(
            self._features, files, self._order.rows, self._add_id and self._ids, ledger
        )
        infos = [
            describe_stream(
                name, column, definition, is_single=column.sample_offsets is None
            )  # of no example, which has no number of samples
            for (name, definition), column in zip(
                self._definitions.items(), examples.read(np.zeros(0, np.int64))[0], strict=True
            )
        ]
        chunk_size = max(1, int(chunks.CHUNK_BYTES / max(1.0, files.mean_bytes)))
        starts = self._chunk_starts(chunk_size)
        cut = chunks_between(starts)
        access = access_to(files.files)

        def load(chunk: int) -> _core.read.Chunk:
            return examples.fetch(np.arange(*starts[chunk : chunk + 2], dtype=np.uint64))

        names = [f"{self._ids.of(n, 0)}+{one.take}" for n, one in enumerate(self._order.rows)]
        by_chunk = _core.read.CallbackDeserializer(load)
        if (name := size_stream(infos)) is not None:
            raise ValueError(
                f"every example of a TFDS folder is one sample; {name!r} cannot define the size"
            )
        reader = StoredReader(
            core=_core.read.FetchingDeserializer(examples.fetch)
            if access.is_local
            else by_chunk,
            streams=infos,
            chunks=cut,
            measure=lambda: Sizing.one_each(cut),
            resident=access.is_local,
            sized_by_streams=False,
            sample_bytes=files.mean_bytes,
            load_threads=access.threads(),
            holds_stored=True,
            chunked=by_chunk if access.is_local else None,
            open_chunks=2 * self._order.num_open,  # a border of chunks may be within a visit
        )
        return StoredCorpus(
            [reader],
            ids=self._ids,
            names=[*names, str(self._order)],
            order=self._order,
            index=files.index_path,
        )

    def _description(self) -> str:
        return brief(self._split_names, self._definitions, len(self))

    def _chunk_starts(self, chunk_size: int) -> NDArray[np.int64]:
        """Return the first example of every chunk, and the end.

        A chunk is a part of one row, or several rows that are small: what lies in it is read at
        about the same time. Where files are shuffled no two rows are.
        """
        starts: list[int] = []
        room = 0
        row_starts = offsets_of([row.take for row in self._order.rows])
        for first, row in zip(row_starts.tolist(), self._order.rows, strict=False):
            if row.take > room or self.shuffle_seed is not None:
                starts += range(first, first + row.take, chunk_size)
                room = chunk_size
            room -= row.take
        return np.array([*starts, len(self)], np.int64)
