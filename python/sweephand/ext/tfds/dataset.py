"""A selection of a TFDS folder as a corpus, in TFDS' own order or ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand import Deserializer, StreamDefs
from sweephand.ext.tfds.array_records import ArrayRecordFiles
from sweephand.ext.tfds.builder_info import BuilderInfo
from sweephand.ext.tfds.example_reader import ExampleReader
from sweephand.ext.tfds.features import Feature
from sweephand.ext.tfds.file_instructions import FileInstruction
from sweephand.ext.tfds.read_order import ExampleIds, ReadOrder
from sweephand.ext.tfds.records import RecordFiles
from sweephand.extend import (
    Keep,
    Ledger,
    Sizing,
    StoredCorpus,
    StoredReader,
    _core,
    access_to,
    brief,
    chunks,
    chunks_between,
    describe_stream,
    offsets_of,
    read_file,
    size_stream,
)


class Dataset(Deserializer):
    """The selected examples, each a sequence of one sample.

    A source with ``randomize=False`` delivers them in the exact order of TFDS, one pass per
    sweep; any position is found in a time that grows with the logarithm of the number of
    shards. With ``randomize=True`` it is the source's own timeline over the same examples. Made
    by `load` and `Builder.as_dataset`.

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
        splits = [self.info.stored_splits[name] for name in self._split_names]
        files = (
            RecordFiles(splits, self._keep)
            if self.info.file_format == "tfrecord"
            else ArrayRecordFiles(splits)
        )
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

        names = [
            f"{self._ids.of(number, 0)}+{row.take}"
            for number, row in enumerate(self._order.rows)
        ]
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
            sample_bytes=files.mean_bytes
            + sum(feature.decoded_bytes for feature in self._features.values()),
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
