"""What holds of one corpus holds of a mixture: layouts, maps, formats, states, errors."""

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sweephand as sh

NAMES = ["web", "code", "books"]


def data_of(seed: int, count: int) -> sh.ArrayDeserializer:
    """Each token tells its sequence and its place there."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, count)
    tokens = [
        1_000_000 * seed + 100 * number + np.arange(length)
        for number, length in enumerate(lengths)
    ]
    return sh.ArrayDeserializer({"tokens": tokens})


def corpora() -> dict[str, sh.Deserializer]:
    return {
        name: data_of(number, 40 + 30 * number) for number, name in enumerate(NAMES, start=1)
    }


def mixture(at_end: Any = "repeat", weights: Any = None) -> sh.Mixture:
    weights = weights or [(0, dict(zip(NAMES, (5, 3, 2), strict=True))),
                          (1500, dict(zip(NAMES, (1, 3, 6), strict=True)))]  # fmt: skip
    return sh.Mixture(corpora(), weights, at_end=at_end)


def tokens_of(minibatch: sh.Minibatch) -> list[int]:
    values = minibatch["tokens"].asarray() if minibatch["tokens"].is_padded else None
    if values is None:
        return list(minibatch["tokens"].values.tolist())
    return [token for token in np.ravel(values).tolist() if token > 0]


def test_shares_of_samples_are_the_weights_however_long_sequences_are() -> None:
    rng = np.random.default_rng(7)
    parts: dict[str, Any] = {
        name: {"x": [np.zeros(n, np.uint8) for n in rng.integers(1, most, 3000)]}
        for name, most in (("short", 10), ("middle", 100), ("long", 1000))
    }
    weights = {"short": 1, "middle": Fraction(1, 3), "long": 0.5}
    whole = 1 + 1 / 3 + 0.5
    with sh.MinibatchSource(sh.Mixture(parts, weights)) as source:
        begin = source.corpus_positions(10**9)
        end = source.corpus_positions(10**9 + 10**7)
        for name, weight in weights.items():
            share = (end[name] - begin[name]) / 10**7
            assert math.isclose(share, float(weight) / whole, rel_tol=1e-3)
        source.current_position = 5 * 10**6
        for name, share in source.stats().items():
            if name.startswith("share_of_"):
                weight = float(weights[name.removeprefix("share_of_")])
                assert math.isclose(share, weight / whole, rel_tol=2e-3)


def _jitter(sequence: Any, key: sh.Key) -> Any:
    return {"tokens": sequence["tokens"] * 1000 + key.integer(1000)}


@pytest.mark.parametrize(
    ("mapped_before", "layout"),
    [
        (True, sh.Ragged()),
        (False, sh.Packed(32)),
        pytest.param(False, sh.Ragged(), marks=pytest.mark.exhaustive),
        pytest.param(True, sh.Packed(32), marks=pytest.mark.exhaustive),
    ],
    ids=repr,
)
def test_a_mixture_changes_no_value_that_a_map_draws(
    mapped_before: bool, layout: sh.Layout
) -> None:
    drawn = {}
    for name, corpus in corpora().items():
        own = corpus.map(_jitter, random=True)
        with sh.MinibatchSource(own, max_sweeps=40, randomization_seed=3) as alone:
            for minibatch in alone.minibatches(1):
                sweep = minibatch.nominal_time // alone.num_samples_per_sweep
                first = int(minibatch["tokens"].values[0])
                drawn[f"{name}/{minibatch.ids[0]}", sweep] = first
    if mapped_before:
        weights = mixture()._weights
        mixed = sh.Mixture(
            {name: one.map(_jitter, random=True) for name, one in corpora().items()}, weights
        )
    else:
        mixed = mixture().map(_jitter, random=True)
    with sh.MinibatchSource(mixed, randomization_seed=3, layout=layout) as source:
        visits: Counter[str] = Counter()
        seen = []
        for minibatch in source.minibatches(400):
            seen += [int(one[0]) for one in _sequences(minibatch)]
            visits.update(minibatch.ids)
            if minibatch.nominal_time > 9000:
                break
    assert len(seen) > 400
    expected = [drawn[name, sweep] for name, count in visits.items() for sweep in range(count)]
    if layout == sh.Ragged():
        assert sorted(seen) == sorted(expected)
    else:  # within a pack rows are not in the order of sweeps
        assert set(seen) <= set(drawn.values())


def _sequences(minibatch: sh.Minibatch) -> Iterator[Any]:
    if not minibatch["tokens"].is_padded:
        yield from minibatch["tokens"].as_sequences()
        return
    rows, segments = minibatch["tokens"].asarray(), minibatch.segment_ids
    for row, marks in zip(rows, segments, strict=True):
        for segment in range(1, marks.max() + 1):
            yield row[marks == segment]


def test_sweeps_are_those_of_each_corpus() -> None:
    with sh.MinibatchSource(mixture()) as source:
        counts: Counter[str] = Counter()
        for minibatch in source.minibatches(100):
            counts.update(minibatch.sweeps_ended_by)
            assert not minibatch.end_of_sweep
            if minibatch.nominal_time > 6000:
                break
        places = source.corpus_positions()
    for name, corpus in corpora().items():
        with sh.MinibatchSource(corpus) as alone:
            assert counts[name] == places[name] // alone.num_samples_per_sweep


def test_a_state_is_of_the_same_weights() -> None:
    with sh.MinibatchSource(mixture()) as source:
        source.next_minibatch(100)
        state = source.get_checkpoint_state()
    others = [
        mixture(weights=dict.fromkeys(NAMES, 1)),
        mixture("drop"),
        sh.Mixture(dict(reversed(corpora().items())), mixture()._weights),
    ]
    for other in others:
        with sh.MinibatchSource(other) as source, pytest.raises(sh.StateError, match="names"):
            source.restore_from_checkpoint(state)


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        ({"a": 1}, ValueError, "nominal time 0 have none for 'b'; 0 leaves it out"),
        ({"a": 1, "b": 1, "c": 2}, ValueError, "no corpus is called 'c', there are: a, b"),
        ({"a": -1, "b": 1}, ValueError, "'a' at nominal time 0 must not be negative, got -1"),
        ({"a": float("nan"), "b": 1}, ValueError, "'a' at nominal time 0 must be finite"),
        ({"a": float("inf"), "b": 1}, ValueError, "must be finite, got inf"),
        ({"a": 0, "b": 0}, ValueError, "all weights at nominal time 0 are 0"),
        ({"a": "7", "b": 0}, TypeError, "'a' at nominal time 0 must be a number"),
        ({"a": 1, "b": 10**12}, ValueError, "less than 2\\^-32 of the sum"),
        ([], ValueError, "got an empty list"),
        ([({"a": 1, "b": 1}, 0)], TypeError, "the time of weights"),
        ([(9, {"a": 1, "b": 1}), (9, {"a": 1, "b": 2})], ValueError, "must ascend"),
        ([(0, {"a": 1, "b": 1}), (2**47, {"a": 1, "b": 2})], ValueError, "2\\^46 samples"),
        (7, TypeError, "weights are a dict"),
    ],
)
def test_weights_that_are_none_are_refused(
    weights: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        sh.Mixture({"a": {"x": np.arange(3)}, "b": {"x": np.arange(3)}}, weights)


def test_what_cannot_be_mixed_is_refused() -> None:
    a: Any = {"x": np.arange(3)}
    weights = {"a": 1, "b": 1}

    def open_(b: Any, **options: Any) -> None:
        sh.MinibatchSource(sh.Mixture({"a": a, "b": b}, weights), **options)

    with pytest.raises(ValueError, match="'a' has x, 'b' has y"):
        open_({"y": np.arange(3)})
    with pytest.raises(ValueError, match="is int64 in 'a' and int32"):
        open_({"x": np.arange(3, dtype=np.int32)})
    with pytest.raises(ValueError, match="'b' is a mixture itself"):
        open_(sh.Mixture({"a": a, "b": a}, weights))
    with pytest.raises(ValueError, match="without '/', got 'a/b'"):
        sh.Mixture({"a/b": a}, {"a/b": 1})
    with pytest.raises(ValueError, match="max_sweeps of a mixture"):
        open_(a, max_sweeps=2)
    with pytest.raises(ValueError, match="at_end is 'repeat', 'stop' or 'drop'"):
        sh.Mixture({"a": a}, {"a": 1}, at_end="end")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="join inside of a mixture"):
        sh.MinibatchSource(
            [sh.Mixture({"a": a}, {"a": 1}), sh.ArrayDeserializer({"z": a["x"]})]
        )
    source = sh.MinibatchSource(sh.Mixture({"a": a, "b": a}, weights))
    with pytest.raises(ValueError, match=r"source\.sweep\(size\) is one sweep of one corpus"):
        source.epoch(2)
    with pytest.raises(ValueError, match="a mixture that repeats has no sweep"):
        source.next_minibatch(sh.FULL_DATA_SWEEP)
    with pytest.raises(KeyError, match="those of a mixture are <corpus>/<id>"):
        source.find("array__0")
    assert source.next_minibatch(2).num_samples == 2


def test_pickled_minibatches_know_their_corpora() -> None:
    import pickle

    with sh.MinibatchSource(mixture()) as source:
        minibatch = source.next_minibatch(100)
    copy = pickle.loads(pickle.dumps(minibatch))
    assert copy.ids == minibatch.ids
    assert copy.num_samples_by() == minibatch.num_samples_by()
    assert sum(minibatch.num_samples_by().values()) == minibatch.num_samples
    with pytest.raises(AttributeError, match="another process"):
        copy.sweeps_ended_by  # noqa: B018


def test_a_part_of_a_mixture_is_mapped_as_the_mixture_is() -> None:
    def negative(sequence: Any) -> Any:
        return {name: -values.astype(np.int32) for name, values in sequence.items()}

    wanted, *_ = sh.split(mixture("drop").map(negative), validation=0.3)
    found, *_ = sh.split(mixture("drop"), validation=0.3)
    first, second = (
        sh.MinibatchSource(one, max_samples=400) for one in (wanted, found.map(negative))
    )
    for want, got in zip(first.minibatches(50), second.minibatches(50), strict=True):
        assert want.ids == got.ids
        assert max(tokens_of(got)) <= 0
        assert tokens_of(want) == tokens_of(got)


def test_streams_of_a_mixture_come_as_those_of_one_corpus() -> None:
    flat = sh.ArrayDeserializer({"x": np.arange(40.0)})
    layout = sh.Bucketed(boundaries=[1, 2])
    alone, mixed = (
        sh.MinibatchSource(one, layout=layout).streams.x
        for one in (flat, sh.Mixture({"a": flat, "b": flat}, {"a": 1, "b": 1}))
    )
    assert (mixed.is_single, mixed.is_sized) == (alone.is_single, alone.is_sized)
