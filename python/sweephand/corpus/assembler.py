"""What puts sequences together: assemblers, readers of mapped sequences, one pass over all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.casts import element_type
from sweephand.corpus.corpus import Corpus, StoredCorpus
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import Change, Reader
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError


def make_assembler(
    corpus: Corpus,
    options: _core.engine.AssembleOptions,
    padding_of: Callable[[StreamInfo], bytes],
    *,
    load_ahead: bool,
    report: Callable[[DataError], None],
    led_by: int = 0,
    readers: Sequence[Reader] | None = None,
    heads: Mapping[str, int] | None = None,
) -> _core.engine.Assembler:
    """Return the engine that carries out plans of a corpus."""
    readers = corpus.readers if readers is None else readers
    has_size_stream = corpus.size_stream is not None
    leader = led_by or len(corpus.chunk_starts)
    return _core.engine.Assembler(
        [
            reader.member(
                corpus.open_chunks, load_ahead=load_ahead, led_by=leader if number else led_by
            )
            for number, reader in enumerate(readers)
        ],
        [
            stream_spec(
                info,
                member,
                column,
                reader,
                padding_of(info),
                has_size_stream,
                head=(heads or {}).get(info.name, 0),
            )
            for member, reader in enumerate(readers)
            for column, info in enumerate(reader.streams)
        ],
        options,
        load_ahead,
        led_by,
        report,
    )


def stream_spec(
    info: StreamInfo,
    member: int,
    column: int,
    reader: Reader,
    padding: bytes,
    has_size_stream: bool,
    *,
    head: int = 0,
) -> _core.engine.StreamSpec:
    """Return how the engine delivers a stream, given where its reader has it."""
    dtype = info.stored_dtype
    return _core.engine.StreamSpec(
        name=info.name,
        member=member,
        column=column,
        type=element_type(dtype),
        element_bytes=dtype.itemsize,
        variable=info.is_variable,
        sparse=info.is_sparse,
        head=head,
        sample_elements=int(np.prod(info.shape, dtype=np.int64)),
        broadcast=info.broadcast,
        single=info.is_single,
        carried=info.carried,
        counts=info.defines_mb_size
        if has_size_stream
        else reader.sized_by_streams and not info.carried,
        pad_value=padding,
    )


Make = Callable[
    [
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint32],
        NDArray[np.uint64],
        _core.engine.Batch,
    ],
    list[_core.read.Chunk],
]
"""Makes sequences: ``make(numbers, sweeps, sizes, places, batch)``, as the core asks for them.

Of sequence ``numbers[places[i]]`` entry ``i`` of the ragged batch is the origin.
"""


@dataclass(frozen=True, kw_only=True, repr=False)
class MappedReader(Reader):
    """Makes sequences when a minibatch wants them."""

    corpus: StoredCorpus  # what they are made of
    # the sequence of it that each is made of; None: that of the same number
    origins: NDArray[np.uint64] | None
    make: Make
    ledger: Ledger  # where damaged ones are counted

    @property
    def is_mapped(self) -> bool:
        return True

    @property
    def loads(self) -> _core.index.Starts:
        return self.corpus.readers[0].loads

    @property
    def part_starts(self) -> NDArray[np.uint64]:
        return self.corpus.readers[0].part_starts

    def through(self, corpus: Any, chunks: slice, change: Change) -> Reader:
        inner = self.corpus
        changed = inner.read_by(one.through(inner, chunks, change) for one in inner.readers)
        return replace(self, corpus=changed, resident=changed.resident)

    def _loader(
        self, load_ahead: bool, led_by: int
    ) -> tuple[None, _core.engine.MappedSequences]:
        corpus = self.corpus
        return None, _core.engine.MappedSequences(
            stored=make_assembler(
                corpus,
                ragged_options(),
                no_padding,
                load_ahead=load_ahead,
                led_by=led_by,
                report=self.ledger.report_by(corpus.ids),
            ),
            sizes=corpus.sizing.sizes,
            num_stored=corpus.num_sequences,
            origins=np.empty(0, np.uint64) if self.origins is None else self.origins,
            make=self.make,
        )


def ragged_options() -> _core.engine.AssembleOptions:
    """Return the options of the ragged layout."""
    return _core.engine.AssembleOptions(_core.engine.Form.RAGGED, False, 1, False)


def no_padding(info: StreamInfo) -> bytes:
    """Return an element of zeros, for streams that are never padded."""
    return bytes(info.stored_dtype.itemsize)


_PATIENCE = 0.1  # seconds


def one_pass(
    corpus: Corpus,
    ledger: Ledger,
    batch_samples: int,
    *,
    begin: int = 0,
    load_ahead: bool = False,
    heads: Mapping[str, int] | None = None,
) -> Generator[tuple[NDArray[np.uint64], _core.engine.Batch], None, None]:
    """Iterate over all sequences from `begin`, in ragged batches of about `batch_samples`.

    Of streams of ``bytes`` that `heads` names, samples are cut to that many.
    """
    order = _core.order.SweepTimeline(
        corpus=_core.index.Corpus(
            corpus.chunk_starts, corpus.sizing.samples, corpus.sizing.sizes
        ),
        settings=_core.order.OrderSettings(
            seed=0, num_lanes=1, window_chunks=1, window_samples=0, randomize=False
        ),
    )
    assembler = make_assembler(
        corpus,
        ragged_options(),
        no_padding,
        load_ahead=load_ahead,
        report=ledger.report_by(corpus.ids),
        heads=heads,
    )
    num_samples = corpus.core.num_samples
    planner = _core.compose.Planner(order, _core.compose.Fitting(), num_samples)
    ahead = _core.engine.LookAhead(order, num_samples, False, False)
    engine = _core.engine.Engine(planner, assembler, 0, 0, False, False, ahead)
    if begin:
        engine.seek(int(corpus.core.sizes(0, begin).sum(dtype=np.uint64)))
    request = _core.compose.Request(batch_samples, 1, 0, crosses_sweeps=True, balance=None)
    try:
        while not (batch := engine.next(request)).end_of_data:
            yield batch.sequences(), batch
    finally:
        engine.close(_PATIENCE)
