"""Arrays in memory as a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.casts import unmasked
from sweephand.corpus.chunks import make_chunk, sequences_per_chunk
from sweephand.corpus.columns import ColumnData, delivered_bytes, describe_stream
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.given_data import make_column
from sweephand.corpus.ids import GivenIds, SequenceIds, ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing, size_columns
from sweephand.corpus.streams import StreamsLike, define_streams, sizing_streams
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.errors import shown, some_of


class ArrayDeserializer(Deserializer):
    """Serve arrays in place.

    Parameters
    ----------
    streams : dict
        Stream name to data: an array of shape (sequences, *shape), one sample per sequence; a
        list with one array of shape (samples, *shape) per sequence, or of pictures that are all
        of one shape, one sample each; ``(values, offsets)`` with
        values of shape (samples, *shape) and offsets of shape (sequences + 1,); a SciPy CSR
        matrix, one sparse sample per row; a list of CSR matrices; a torch tensor. Contiguous
        arrays of native byte order are not copied: do not write to them.
    definitions : StreamDefs, dict of StreamDef or list of str, optional
        Properties that arrays lack, such as ``defines_mb_size``; streams that are not named
        come as they are.
    ids : sequence of str or int, optional
        One id per sequence, all different, which is also its join key; by default
        ``<name>__<number>``.
    chunk_size : int, optional
        Sequences in a chunk, the unit that a window shuffles; by default as many as fill about
        8 MiB.
    name : str
        Name of the corpus in ids and fingerprints.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> tokens = np.arange(10, dtype=np.uint16)
    >>> corpus = sh.ArrayDeserializer({"tokens": (tokens, [0, 3, 10])})
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> source.next_minibatch(4)["tokens"].as_sequences()
    [array([0, 1, 2], dtype=uint16)]
    """

    def __init__(
        self,
        streams: Mapping[str, object],
        definitions: StreamsLike | None = None,
        ids: Sequence[str] | NDArray[np.generic] | None = None,
        chunk_size: int | None = None,
        name: str = "array",
    ) -> None:
        check_dict("ArrayDeserializer takes a dict from stream name to array", streams)
        defined = define_streams(definitions, streams)
        self._columns: dict[str, ColumnData] = {}
        for stream, definition in defined.items():
            field = definition.field or stream
            if field not in streams:
                raise ValueError(
                    f"no data for stream {field!r}, there are: {', '.join(streams)}"
                )
            self._columns[stream] = make_column(
                stream, streams[field], definition.sample_shape, whole=True
            )
        self._infos = [
            describe_stream(stream, self._columns[stream], definition)
            for stream, definition in defined.items()
        ]
        check_same_sequences(self._columns)
        self._num_sequences = next(iter(self._columns.values())).num_sequences
        if self._num_sequences == 0:
            raise ValueError("the corpus is empty: no sequences")
        if chunk_size is not None:
            check_int("chunk_size", chunk_size, 1, 2**63)
        self._chunk_size = chunk_size
        self._name = name
        self._ids: SequenceIds = ShardIds([name], [0, self._num_sequences])
        unmasked("ids", ids)
        self._given = None if ids is None else list(map(str, ids))
        if self._given is not None:
            if len(self._given) != self._num_sequences:
                raise ValueError(
                    f"{len(self._given)} ids are given for {self._num_sequences} sequences"
                )
            self._ids = GivenIds(self._given)

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read."""
        columns, infos = self._columns, {info.name: info for info in self._infos}
        num_bytes = sum(column.num_bytes for column in columns.values())
        delivered = sum(map(delivered_bytes, columns.values(), self._infos))
        num_samples = max(column.num_samples for column in columns.values())
        size = self._chunk_size or sequences_per_chunk(self._num_sequences, num_bytes)
        chunks = _core.index.Starts.even(self._num_sequences, size)

        @cache
        def measure() -> Sizing:
            return size_columns(columns, chunks, sizing_streams(infos))

        chunk = make_chunk(list(columns.values()), owned=False)
        reader = StoredReader(
            core=_core.read.ResidentDeserializer(chunk),
            streams=self._infos,
            chunks=chunks,
            measure=measure,
            resident=True,
            sample_bytes=delivered / max(1, num_samples),
        )
        keys = None if self._given is None else partial(list[str], self._given)
        return StoredCorpus([reader], self._ids, [self._name], keys=keys)

    def _description(self) -> str:
        return brief([self._name], self._infos, self._num_sequences)


def check_same_sequences(columns: Mapping[str, ColumnData]) -> None:
    """Refuse streams with different numbers of sequences."""
    counts = {stream: column.num_sequences for stream, column in columns.items()}
    if len(set(counts.values())) > 1:
        listed = some_of([f"{stream!r} has {count}" for stream, count in counts.items()])
        raise ValueError(f"streams must have the same number of sequences: {listed}")


SERIES = {"pandas.Series", "polars.Series"}
DATASET = "datasets.Dataset"
_COLUMNS = {"pyarrow.Array", "pyarrow.ChunkedArray"}
_SPLITS = ("datasets.DatasetDict", "datasets.IterableDatasetDict")
_WAYS = (
    "write sh.ArrayDeserializer({'x': array}) for arrays, sh.ArrowDeserializer(table) for "
    "tables and DataFrames, sh.MapDeserializer(dataset) for rows and data sets with items by "
    "number, sh.open(path) for files; of a dict of splits give one of them"
)


class Table(Protocol):
    """Columns by name that Arrow hands over: a table, a DataFrame."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table as an Arrow stream."""


class Rows(Protocol):
    """A Hugging Face Dataset."""

    @property
    def column_names(self) -> Any:
        """Return the names of its columns."""


SourceData = Deserializer | Sequence[Deserializer] | Mapping[str, Any] | Table | Rows
"""Deserializers, a dict of arrays as `ArrayDeserializer` takes it, or a table."""


def deserializers_of(data: object) -> list[Deserializer]:
    """Return the deserializers of the data given to a source."""
    import sweephand as sh  # deserializers by their public names: they are built on this

    if isinstance(data, Deserializer):
        return [data]
    if isinstance(data, Mapping) and names_of_types(data).isdisjoint(_SPLITS):
        if any(isinstance(one, Deserializer) for one in data.values()):
            raise TypeError("deserializers that are joined come in a list, not in a dict")
        return [sh.ArrayDeserializer(data)]
    if is_table(data):
        return [sh.ArrowDeserializer(data)]
    if not isinstance(data, list | tuple) or not all(
        isinstance(one, Deserializer) for one in data
    ):
        raise wrong_data("deserializers must be Deserializer objects", data)
    if not data:
        raise ValueError("give at least one deserializer")
    return list(data)


def single_corpus(data: object, wanted: str) -> Deserializer:
    """Return the single deserializer of data to be cut in parts, in memory or not."""
    if hasattr(data, "next_minibatch"):
        raise TypeError(f"{wanted} takes a corpus, got {shown(data)}: give what it was made of")
    found = deserializers_of(data)
    if len(found) > 1:
        raise TypeError(
            f"{wanted} takes one corpus, got {len(found)} that are joined: give it the first, "
            "and join its parts with the others"
        )
    return found[0]


def is_table(data: object) -> bool:
    """Return True for columns by name that Arrow can export: a table, a DataFrame."""
    names = names_of_types(data)
    has_stream = hasattr(data, "__arrow_c_stream__")
    return DATASET in names or (has_stream and not names & (SERIES | _COLUMNS))


def check_dict(wanted: str, data: object) -> None:
    """Refuse anything but a dict of streams that has streams."""
    if not isinstance(data, Mapping) or not names_of_types(data).isdisjoint(_SPLITS):
        raise wrong_data(wanted, data)
    if not data:
        raise ValueError("give at least one stream")
    for name in data:
        if not isinstance(name, str):
            raise TypeError(f"the name of a stream is text, got {name!r:.60}")


def wrong_data(wanted: str, data: object) -> TypeError:
    """Return the error for data that are served otherwise, or not at all."""
    return TypeError(f"{wanted}, got {shown(data)}: {_WAYS}")


def names_of_types(data: object) -> set[str]:
    """Return the names of the types of an object, without importing any."""
    return {f"{one.__module__.partition('.')[0]}.{one.__name__}" for one in type(data).__mro__}
