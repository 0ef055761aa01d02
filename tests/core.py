"""The model's corpora and settings as objects of the library."""

import numpy as np

import sweephand as sh
from sweephand import _core
from tests import model
from tests.model import ModelCorpus, ModelSettings


def core_corpus(corpus: ModelCorpus, *, offsets: bool = False) -> _core.index.Corpus:
    """Sizes are one number where all are equal, else stored, or differences of offsets."""
    sizes: _core.index.Sizes
    if offsets:
        sizes = _core.index.OffsetSizes(np.cumsum([0, *corpus.sizes]))
    elif len(set(corpus.sizes)) == 1:
        sizes = _core.index.CommonSize(corpus.sizes[0])
    else:
        sizes = _core.index.StoredSizes(np.array(corpus.sizes, dtype=np.uint32))
    return _core.index.Corpus(
        np.array([len(chunk) for chunk in corpus.chunks], dtype=np.uint64),
        np.array([sum(chunk) for chunk in corpus.chunks], dtype=np.uint64),
        sizes,
    )


def core_request(
    num_samples: int, num_workers: int = 1, rank: int = 0, balance: str | int | None = None
) -> _core.compose.Request:
    """`balance` is that of the model."""
    cost = None
    if balance is not None:
        equal_at = model.equal_at(balance)
        cost = _core.compose.Cost(equal_at or 1, equal_at is not None)
    return _core.compose.Request(num_samples, num_workers, rank, True, cost)


def core_timeline(
    corpus: ModelCorpus, settings: ModelSettings, *, offsets: bool = False
) -> _core.order.Timeline:
    core = core_corpus(corpus, offsets=offsets)
    order = _core.order.OrderSettings(
        seed=settings.seed,
        num_lanes=settings.num_lanes,
        window_chunks=settings.window_chunks or 0,
        window_samples=settings.window_samples or 0,
        randomize=settings.randomize,
    )
    return _core.order.SweepTimeline(core, order)


def one_block_source(
    corpus: ModelCorpus, settings: ModelSettings, limit: int | None = None, **options: object
) -> sh.MinibatchSource:
    """A source whose stream "number" repeats the number of a sequence for every sample of it.

    Its data are resident, so without a window the chunks do not matter.
    """
    assert settings.window_chunks is None
    assert settings.window_samples is None
    numbers = np.repeat(np.arange(corpus.num_sequences), corpus.sizes)
    return sh.MinibatchSource(
        sh.ArrayDeserializer({"number": (numbers, np.cumsum([0, *corpus.sizes]))}),
        max_samples=sh.INFINITELY_REPEAT if limit is None else limit,
        randomize=settings.randomize,
        randomization_seed=settings.seed,
        num_lanes=settings.num_lanes,
        **options,
    )
