"""One pass over a corpus in storage order, whatever its sweeps are like."""

from __future__ import annotations

from collections.abc import Generator, Mapping

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import make_assembler
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.mapped_reader import no_padding, ragged_options

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
