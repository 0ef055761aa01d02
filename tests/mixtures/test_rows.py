"""Rows and buckets of a mixture keep sweeps and shares, whatever the sizes of its corpora."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.mixtures.test_order import (
    delivered,
    ids_of,
    random_corpus,
    random_mixture,
    source_of,
)
from tests.model import ModelCorpus, ModelSettings
from tests.model_mixtures import (
    Mixed,
    ModelMixture,
    bucketed_mixture,
    first_in_sight,
    packed_mixture,
    row_parts,
)

import sweephand as sh


def first_of(mixture: ModelMixture, samples: int) -> list[Mixed]:
    return list(itertools.takewhile(lambda one: one.time < samples, mixture.order()))


def never_ends(rng: np.random.Generator) -> ModelMixture:
    while True:
        mixture = random_mixture(rng)
        if mixture.at_end == "repeat":
            return mixture


def in_rows(rng: np.random.Generator) -> ModelMixture:
    """One that rows are served of: no corpus is of single samples."""
    while True:
        mixture = never_ends(rng)
        if all(max(corpus.sizes) > 1 for corpus in mixture.corpora.values()):
            return mixture


def of_many(rng: np.random.Generator) -> ModelMixture:
    """One of so many corpora that rows look at what all have, and not at each."""
    drawn = (random_corpus(rng) for _ in itertools.count())
    several = (corpus for corpus in drawn if max(corpus.sizes) > 1)
    names = [f"c{number}" for number in range(rng.choice([12, 40, 70]))]
    corpora = dict(zip(names, several, strict=False))
    weights = rng.choice([1, 2, 30], len(corpora), p=[0.6, 0.3, 0.1]).tolist()
    settings = ModelSettings(seed=int(rng.integers(2**63)), num_lanes=2, window_chunks=3)
    return ModelMixture(corpora, [(0, weights)], settings)


@pytest.mark.parametrize("seed", range(30))
def test_rows_are_those_of_the_page_from_anywhere(seed: int) -> None:
    rng = np.random.default_rng(seed)
    check_rows(in_rows(rng), int(rng.choice([4, 16, 50])), rng)


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_many_corpora_are_those_of_the_page(seed: int) -> None:
    rng = np.random.default_rng(seed)
    check_rows(of_many(rng), int(rng.choice([50, 120])), rng)


def check_rows(mixture: ModelMixture, length: int, rng: np.random.Generator) -> None:
    look_ahead = int(rng.choice([1, 2, 7, 64]))
    samples = 60 * length
    part = 2**62 // row_parts(mixture, length)
    order, _ = first_in_sight(mixture, part, samples, look_ahead)
    rows = [
        (row, taken)
        for row, taken in packed_mixture(mixture, order, length, look_ahead)
        if row.time + 2 * length <= samples
    ]
    layout = sh.Packed(length, "split", look_ahead=look_ahead)
    with source_of(mixture, layout=layout) as source:
        for _ in range(3):
            begin = int(rng.integers(len(rows)))
            source.current_position = rows[begin][0].time
            for row, taken in rows[begin : begin + 12]:
                assert source.current_position == row.time
                minibatch = source.next_minibatch(length)
                assert delivered(minibatch) == ids_of(mixture, taken)
                offsets = np.cumsum([0, *(piece.size for piece in row.pieces)])
                assert minibatch["n"].offsets.tolist() == offsets.tolist()


def test_a_pack_begins_anew_with_every_part_of_a_mixture() -> None:
    rng = np.random.default_rng(8)
    mixture = next(
        one for one in map(in_rows, itertools.repeat(rng))
        if 2**62 // row_parts(one, 4) <= 2**11 and len(one.corpora) > 2
    )  # fmt: skip
    part = 2**62 // row_parts(mixture, 4)
    rows = list(packed_mixture(mixture, first_of(mixture, 2 * part), 4, 64))
    with source_of(mixture, layout=sh.Packed(4, "split")) as source:
        for row, taken in rows:
            assert source.current_position == row.time
            assert delivered(source.next_minibatch(4)) == ids_of(mixture, taken)


@dataclass
class Delivered:
    """What a run delivered of each corpus, and how far shares were from the weights."""

    ids: dict[str, list[str]]
    furthest: float = 0.0
    fills: list[float] = field(default_factory=list)


def corpora_of(sizes: dict[str, list[int]]) -> dict[str, sh.Deserializer]:
    return {
        name: sh.ArrayDeserializer({"tokens": [np.full(n, 7) for n in own]}, name=name)
        for name, own in sizes.items()
    }


def run(source: sh.MinibatchSource, weights: dict[str, int], size: int, end: int) -> Delivered:
    found = Delivered({name: [] for name in weights})
    samples = dict.fromkeys(weights, 0)
    for minibatch in source.minibatches(size):
        for sequence_id in minibatch.ids:
            found.ids[sequence_id.split("/")[0]].append(sequence_id)
        for name, count in minibatch.num_samples_by().items():
            samples[name] += count
        time = minibatch.nominal_time + minibatch.global_num_samples
        for name, weight in weights.items():
            due = time * weight / sum(weights.values())
            found.furthest = max(found.furthest, abs(samples[name] - due))
        found.fills.append(minibatch.fill_ratio)
        if time >= end:
            break
    return found


def uniform(seed: int, count: int, longest: int = 99) -> list[int]:
    return np.random.default_rng(seed).integers(1, longest + 1, count).tolist()


MIXTURES: dict[str, tuple[dict[str, list[int]], dict[str, int]]] = {
    "even": (
        {"a": uniform(1, 2000), "b": uniform(2, 2000), "c": uniform(3, 2000)},
        {"a": 5, "b": 2, "c": 3},
    ),
    "one tiny": (
        {"a": uniform(1, 10), "b": uniform(2, 5000), "c": uniform(3, 5000)},
        {"a": 1, "b": 2, "c": 3},
    ),
    "tiny and heavy": ({"a": uniform(1, 10), "b": uniform(2, 3000)}, {"a": 3, "b": 2}),
    "many": (
        {f"corpus {i}": uniform(i, 20 + 10 * i) for i in range(24)},
        {f"corpus {i}": 1 + i % 5 for i in range(24)},
    ),
    "one long": ({"a": uniform(1, 3000, 40), "b": uniform(2, 40, 400)}, {"a": 1, "b": 1}),
}


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("randomize", [True, False])
def test_rows_keep_sweeps_and_shares_whatever_the_sizes_of_corpora(
    name: str, randomize: bool
) -> None:
    sizes, weights = MIXTURES[name]
    length, end = 512, 150_000
    mixture = sh.Mixture(corpora_of(sizes), weights)
    with sh.MinibatchSource(
        mixture, layout=sh.Packed(length), randomize=randomize, max_samples=2 * end
    ) as source:
        found = run(source, weights, length, end)
        longest = max(map(max, sizes.values()))
        assert found.furthest <= 2 * length + longest
        assert np.mean(found.fills) >= 0.995
        for corpus, own in sizes.items():
            ids = found.ids[corpus]
            # Every sweep by itself: all of it, nothing twice, before anything of the next.
            for begin in range(0, len(ids), len(own)):
                sweep = ids[begin : begin + len(own)]
                assert len(set(sweep)) == len(sweep)
        for sequence_id in [ids[0] for ids in found.ids.values()]:
            times = [source.find(sequence_id, sweep) for sweep in range(6)]
            assert times == sorted(set(times))


@pytest.mark.parametrize("seed", range(15))
def test_buckets_are_those_of_the_page(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixture = never_ends(rng)
    request = int(rng.integers(1, 120))
    order = first_of(mixture, 40 * 120)
    requests = itertools.repeat(request)
    expected = bucketed_mixture(mixture, order, [5, 20, 40], requests)
    with source_of(mixture, layout=sh.Bucketed([5, 20, 40])) as source:
        for minibatch in itertools.islice(expected, 15):
            if minibatch.time + 10 * 120 > 40 * 120:
                break
            assert source.current_position == minibatch.time
            taken = [order[entry.sequence] for entry in minibatch.entries]
            found = source.next_minibatch(request)
            assert found.bucket_key == minibatch.key
            assert delivered(found) == ids_of(mixture, taken)


def is_first(sequence: dict[str, Any]) -> bool:
    return int(sequence["n"][0]) == 0


@pytest.mark.parametrize("num_chunks", [2, 3, 8, 64])
def test_parts_are_as_short_as_windows_however_little_a_filter_leaves(num_chunks: int) -> None:
    mixture = ModelMixture(
        {
            "a": ModelCorpus.of([[2], *[[]] * (num_chunks - 1)]),
            "b": ModelCorpus.of([[3, 5]]),
        },
        [(0, (1, 1))],
        ModelSettings(num_lanes=1, window_chunks=1),
    )
    stored = {"n": [np.full(2, number) for number in range(num_chunks)]}
    corpora = {
        "a": sh.ArrayDeserializer(stored, chunk_size=1).filter(is_first),
        "b": sh.ArrayDeserializer({"n": [np.full(3, 0), np.full(5, 1)]}),
    }
    order = first_of(mixture, 300)
    with sh.MinibatchSource(
        sh.Mixture(corpora, {"a": 1, "b": 1}),
        layout=sh.Bucketed([40]),
        num_lanes=1,
        randomization_window_in_chunks=1,
    ) as source:
        for one in bucketed_mixture(mixture, order, [40], itertools.repeat(200)):
            taken = [order[entry.sequence] for entry in one.entries]
            assert delivered(source.next_minibatch(200)) == ids_of(mixture, taken)
