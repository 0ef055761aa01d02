"""A mixture is the one of docs/order.md: at random settings, from anywhere."""

import itertools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model_mixtures as model
from tests.model import ModelCorpus, ModelSettings
from tests.model_mixtures import Mixed, ModelMixture

import sweephand as sh
from sweephand import _core
from sweephand.mixtures.mixture import drop_out, legs_of, rates_of

NEVER = 2**64 - 1
NAMES = ["web", "code", "books", "mail"]


def random_weights(rng: np.random.Generator, count: int) -> list[int]:
    weights = rng.integers(0, 9, count) * rng.integers(0, 2, count)
    weights[rng.integers(count)] += 1
    return weights.tolist()


def random_knots(rng: np.random.Generator, count: int, scale: int) -> list[Any]:
    times = np.unique(rng.integers(0, scale, rng.integers(1, 4)))
    return [(int(time), random_weights(rng, count)) for time in times]


def random_corpus(rng: np.random.Generator) -> ModelCorpus:
    most = int(rng.choice([1, 1, 5, 40]))
    chunks = rng.integers(1, 6)
    return ModelCorpus.of(
        [rng.integers(1, most + 1, rng.integers(1, 9)).tolist() for _ in range(chunks)]
    )


def random_mixture(rng: np.random.Generator) -> ModelMixture:
    names = NAMES[: rng.integers(1, 5)]
    corpora = {name: random_corpus(rng) for name in names}
    return ModelMixture(
        corpora,
        random_knots(rng, len(names), 400),
        ModelSettings(
            seed=int(rng.integers(2**63)),
            num_lanes=int(rng.integers(1, 6)),
            window_chunks=int(rng.integers(1, 6)),
            randomize=bool(rng.random() < 0.8),
        ),
        at_end=str(rng.choice(["repeat", "stop", "drop"])),
        sweeps=int(rng.integers(1, 3)),
    )


def source_of(mixture: ModelMixture, **options: Any) -> sh.MinibatchSource:
    """A source whose stream "n" repeats the number of a sequence, in the corpora of a model."""
    corpora = {}
    for name, corpus in mixture.corpora.items():
        numbers = np.repeat(np.arange(corpus.num_sequences), corpus.sizes)
        corpora[name] = Chunked(numbers, corpus)
    weights = [
        (time, dict(zip(corpora, weights, strict=True))) for time, weights in mixture.knots
    ]
    settings = mixture.settings
    sweeps = mixture.sweeps if mixture.at_end == "stop" else sh.INFINITELY_REPEAT
    return sh.MinibatchSource(
        sh.Mixture(corpora, weights, at_end=mixture.at_end),  # type: ignore[arg-type]
        randomization_seed=settings.seed,
        num_lanes=settings.num_lanes,
        randomize=settings.randomize,
        max_sweeps=sweeps,
        **({"randomization_window_in_chunks": settings.window_chunks}
           if settings.randomize and settings.window_chunks else {}),
        **{"num_threads": 1, **options},
    )  # fmt: skip


class Chunked(sh.UserDeserializer):
    """Sequences in the chunks of a model's corpus."""

    def __init__(self, numbers: np.ndarray, corpus: ModelCorpus) -> None:
        super().__init__()
        self._numbers = numbers
        self._model = corpus

    def stream_infos(self) -> list[sh.StreamInfo]:
        return [sh.StreamInfo("n", np.dtype(np.int64), ())]

    def num_chunks(self) -> int:
        return len(self._model.chunks)

    def get_chunk(self, chunk: int) -> Any:
        first = sum(len(one) for one in self._model.chunks[:chunk])
        return {
            "n": [
                np.full(size, first + number)
                for number, size in enumerate(self._model.chunks[chunk])
            ]
        }


def ids_of(mixture: ModelMixture, taken: list[Mixed]) -> list[tuple[str, int]]:
    names = list(mixture.corpora)
    return [(names[one.corpus], one.sequence) for one in taken]


def delivered(minibatch: sh.Minibatch) -> list[tuple[str, int]]:
    firsts = [int(one[0]) for one in minibatch["n"].as_sequences()]
    names = [name.split("/")[0] for name in minibatch.ids]
    return list(zip(names, firsts, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_rates_are_those_of_the_page(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 5))
    knots = random_knots(rng, count, int(rng.choice([50, 10**6, 2**45])))
    sizes = rng.integers(1, 10**6, count).tolist()
    legs = model.legs_of(knots)
    names = NAMES[:count]
    given = [(time, dict(zip(names, weights, strict=True))) for time, weights in knots]
    own = legs_of(given, names)
    for theirs, ours in ((legs, own), (model.drop(legs, sizes), drop_out(own, sizes)[0])):
        for corpus, rate in enumerate(rates_of(ours)):
            for time in [0, 1, *rng.integers(0, 2**47, 6).tolist(), *(t for t, _ in knots)]:
                assert rate.due(time) == model.due(theirs, corpus, time) // model.UNIT
            for samples in [0, 1, *rng.integers(0, 10 ** rng.integers(1, 14), 12).tolist()]:
                expected = model.key(theirs, corpus, samples)
                assert rate.reached(samples) == (NEVER if expected is None else expected)


def test_shares_sum_to_the_whole_whatever_the_weights() -> None:
    weights = {name: Fraction(1, number + 3) for number, name in enumerate(NAMES)}
    (leg,) = legs_of(weights, NAMES)
    assert sum(leg.first) == 2**32
    (decimal,) = legs_of({"web": 0.1, "code": 0.9}, ["web", "code"])
    assert decimal.first == model.shares([Fraction(1, 10), Fraction(9, 10)])


@pytest.mark.parametrize("seed", range(40))
def test_a_mixture_is_that_of_the_page_from_anywhere(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixture = random_mixture(rng)
    order = list(itertools.islice(mixture.order(), 400))
    ended = len(order) < 400
    end = order[-1].time + order[-1].size
    with source_of(mixture) as source:
        for _ in range(4):
            begin = int(rng.integers(0, end))
            expected = [one for one in order if one.time >= begin]
            source.current_position = begin
            while expected:
                assert source.current_position == expected[0].time
                size = int(rng.integers(1, 60))
                minibatch = source.next_minibatch(size)
                taken = expected[: minibatch.num_sequences]
                if not ended and len(taken) == len(expected):
                    break
                assert delivered(minibatch) == ids_of(mixture, taken)
                assert minibatch.num_samples <= max(size, taken[0].size)
                expected = expected[len(taken) :]
                is_last = ended and not expected
                assert minibatch.end_of_sweep == (is_last and mixture.at_end == "stop")
        if ended:
            source.current_position = end
            assert not source.next_minibatch(1)
            assert not source.is_infinite


@given(
    st.sampled_from([1, 2, 3, 2**31 - 1, 2**31, 2**32 - 1, 2**32]) | st.integers(1, 2**32),
    st.integers(1, 2**40),
    st.integers(0, 62).flatmap(lambda bits: st.integers(2**bits, 2 ** (bits + 1))),
)
def test_even_shares_are_reached_to_the_sample(share: int, change: int, samples: int) -> None:
    """Shares that do not change, but for one that is halved or ended at some time."""
    half = share // 2
    even, halved = (
        _core.order.Rate(*(np.array(each, np.uint64) for each in segments))
        for segments in (
            ([0], [share], [share], [0]),
            ([0, change], [share, half], [share, half], [0, 0]),
        )
    )
    wanted = -(-samples * 2**32 // share)
    assert even.reached(samples) == (wanted if wanted <= 2**63 else NEVER)
    if wanted > change:
        rest = samples * 2**32 - change * share
        wanted = change - (-rest // half) if half else NEVER
    assert halved.reached(samples) == (wanted if wanted <= 2**63 + change else NEVER)


CASES = json.loads((Path(__file__).parents[1] / "golden/order_1_mixtures.json").read_text())


def golden_mixture(case: Any) -> ModelMixture:
    corpora = {name: ModelCorpus.of(chunks) for name, chunks in case["corpora"].items()}
    settings = ModelSettings(**case["settings"])
    return ModelMixture(corpora, case["weights"], settings, case["at_end"])


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_mixtures_of_the_model_are_the_golden_ones(case: Any) -> None:
    order = itertools.islice(golden_mixture(case).order(), len(case["order"]))
    found = [[one.time, one.corpus, one.sequence, one.sweep, one.lane] for one in order]
    assert found == case["order"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_mixtures_of_a_source_are_the_golden_ones(case: Any) -> None:
    mixture = golden_mixture(case)
    names = list(mixture.corpora)
    expected = [(names[corpus], sequence) for _, corpus, sequence, _, _ in case["order"]]
    with source_of(mixture) as source:
        found: list[tuple[str, int]] = []
        while len(found) < len(expected) and (minibatch := source.next_minibatch(30)):
            found += delivered(minibatch)
    assert found[: len(expected)] == expected
