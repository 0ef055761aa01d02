"""Sources in an order by score: what scores may be, what is refused, and what a state says."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources import numbers

import sweephand as sh

HARDNESS = [0.3, 0.1, 0.9, 0.2, 0.8, 0.5]
SORTED = [1, 3, 0, 5, 4, 2]
LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6]


def corpus_of(count: int = 6, **options: Any) -> sh.ArrayDeserializer:
    return sh.ArrayDeserializer({"x": np.arange(count)}, **options)


def ragged() -> sh.ArrayDeserializer:
    return sh.ArrayDeserializer({"x": [np.zeros(length, np.int64) for length in LENGTHS]})


def sweep_of(corpus: sh.Deserializer, order: sh.ByScore, sweep: int = 0) -> list[int]:
    """The numbers of the sequences of a sweep."""
    with sh.MinibatchSource(corpus, order=order) as source:
        samples = source.num_samples_per_sweep
        return numbers(source.sequence_ids(sweep * samples, (sweep + 1) * samples))


@pytest.mark.parametrize(
    "kind", ["list", "float32", "mapping", "some", "npy", "table", "frame"]
)
def test_scores_come_as_arrays_files_mappings_and_tables(kind: str, tmp_path: Path) -> None:
    ids = [f"array__{n}" for n in range(6)]
    scores: Any = HARDNESS
    default = None
    if kind == "float32":
        scores = np.array(HARDNESS, np.float32)
    elif kind == "mapping":
        scores = dict(zip(reversed(ids), reversed(HARDNESS), strict=True))
    elif kind == "some":
        scores, default = {ids[1]: 0.1, ids[3]: 0.2, ids[0]: 0.3, ids[5]: 0.5, ids[4]: 0.8}, 7
    elif kind == "npy":
        scores = tmp_path / "scores.npy"
        np.save(scores, HARDNESS)
    elif kind in ("table", "frame"):
        pyarrow = pytest.importorskip("pyarrow")
        scores = pyarrow.table({"id": ids[::-1], "score": HARDNESS[::-1]})
        if kind == "frame":
            pytest.importorskip("pandas")
            scores = scores.to_pandas()
    assert sweep_of(corpus_of(), sh.ByScore(scores, default=default)) == SORTED


def test_lengths_are_scores_of_their_own() -> None:
    found = sweep_of(ragged(), sh.ByScore("length"))
    assert [LENGTHS[n] for n in found] == sorted(LENGTHS)
    found = sweep_of(ragged(), sh.ByScore("length", descending=True))
    assert [LENGTHS[n] for n in found] == sorted(LENGTHS, reverse=True)


def test_any_number_of_workers_is_dealt_a_minibatch_in_turn() -> None:
    order = sh.ByScore(np.arange(100))
    with sh.MinibatchSource(corpus_of(100), order=order) as source:
        for rank in range(70):
            source.current_position = 0
            share = source.next_minibatch(100, None, None, 70, rank)
            assert share["x"].values.tolist() == list(range(100))[rank::70]


def test_resident_data_are_one_block_however_many_they_are() -> None:
    count = 1 << 20
    lengths = np.arange(count) % 2 + 1
    offsets = np.append(0, np.cumsum(lengths))
    corpus = sh.ArrayDeserializer({"x": (np.zeros(offsets[-1], np.uint8), offsets)})
    with sh.MinibatchSource(corpus, order=sh.ByScore("length")) as source:
        assert source.get_checkpoint_state()["window"] == "all"
        minibatch = source.next_minibatch(count // 2)
        assert minibatch.num_sequences == count // 2


def test_a_state_goes_on_in_another_source_and_names_the_order() -> None:
    order = sh.ByScore(np.arange(100) % 7, noise=0.1)
    with sh.MinibatchSource(corpus_of(100), order=order) as source:
        source.next_minibatch(30)
        state = json.loads(json.dumps(source.get_checkpoint_state()))
        expected = [source.next_minibatch(30).ids for _ in range(9)]
        copy = pickle.loads(pickle.dumps(source))
    assert state["order"].startswith("by score, over=sweep, noise=0.1 #")
    assert copy.state_dict()["order"] == state["order"]
    copy.close()
    with sh.MinibatchSource(corpus_of(100), order=order) as source:
        source.restore_from_checkpoint(state)
        assert [source.next_minibatch(30).ids for _ in range(9)] == expected


BASE = {"scores": np.arange(6), "until_sweep": 3}
OTHERS: list[Any] = [
    {"scores": [0, 1, 2, 3, 5, 4], "until_sweep": 3},
    {"scores": np.arange(6), "until_sweep": 4},
    {**BASE, "noise": 0.1},
    {**BASE, "over": "window"},
    {**BASE, "descending": True},
    {**BASE, "boundaries": [3], "weights": [2, 1]},
    None,
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_state_of_other_scores_is_refused(other: Any) -> None:
    orders = sh.ByScore(**BASE), other and sh.ByScore(**other)
    sources = [sh.MinibatchSource(corpus_of(), order=order, num_lanes=1) for order in orders]
    for here, there in (sources, sources[::-1]):
        with pytest.raises(sh.StateError, match="order"):
            here.restore_from_checkpoint(there.get_checkpoint_state())
    for source in sources:
        source.close()


def test_scores_of_the_same_ranks_are_the_same_order() -> None:
    states = []
    for scores in ([1, 5, 2, 5, 9, 0], [0.5, 3, 0.75, 3, np.inf, -7]):
        with sh.MinibatchSource(corpus_of(), order=sh.ByScore(scores)) as source:
            states.append(source.get_checkpoint_state())
    assert states[0] == states[1]


WRONG_SCORES: list[tuple[Any, str]] = [
    ([1, 2, 3], "there are 3 scores for 6 sequences"),
    ([1, 2, np.nan, 4, 5, 6], "the score of 'array__2' is nan"),
    ({"array__9": 1.0}, "a score of 'array__9', and no sequence of that id"),
    ({"array__1": 1.0}, "'array__0' and 4 other sequences have no score; default="),
    (
        {f"array__{n}": [0.5, np.nan][n == 4] for n in range(6)},
        "the score of 'array__4' is nan",
    ),
    (np.zeros((6, 1)), "one dimension"),
    (["a"] * 6, "scores must be a number for each sequence"),
    (5.0, "scores must be a number for each sequence"),
]


@pytest.mark.parametrize(("scores", "reason"), WRONG_SCORES)
def test_scores_that_are_no_scores_of_the_corpus_are_refused(scores: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        sh.MinibatchSource(corpus_of(), order=sh.ByScore(scores))


def test_tables_without_the_columns_or_with_an_id_twice_are_refused() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    for table, reason in (
        (
            pyarrow.table({"id": ["array__0"], "loss": [1.0]}),
            "columns 'id' and 'score', got id",
        ),
        (
            pyarrow.table({"id": ["array__0"] * 2, "score": [1.0, 2]}),
            "'array__0' has more than",
        ),
    ):
        with pytest.raises(ValueError, match=reason):
            sh.MinibatchSource(corpus_of(), order=sh.ByScore(table, default=0))


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: sh.ByScore([1], over="chunk"), "over must be 'sweep' or 'window'"),
    (lambda: sh.ByScore([1], noise=1.5), r"noise must be in \[0, 1\], got 1.5"),
    (lambda: sh.ByScore([1], noise=[0, -0.1]), "noise must be in"),
    (lambda: sh.ByScore([1], noise=[]), "got none"),
    (lambda: sh.ByScore([1], noise=np.nan), "noise must be finite"),
    (lambda: sh.ByScore([1], default=np.nan), "default must be a number"),
    (lambda: sh.ByScore([1], until_sweep=-1), "until_sweep must be in"),
    (lambda: sh.ByScore([1], weights=[1, 2]), "boundaries and weights belong together"),
    (lambda: sh.ByScore([1], boundaries=[2]), "boundaries and weights belong together"),
    (lambda: levels([2, 1], [1, 2, 3]), "boundaries must ascend"),
    (lambda: levels(range(256), [1] * 257), "at most 256 levels"),
    (lambda: levels([2], [1, 2, 3]), "1 boundaries make 2 levels, there are weights of 3"),
    (lambda: levels([2], []), "must not be empty"),
    (lambda: levels([2], [0, 0]), "must not all be 0"),
    (lambda: levels([2], [1, -1]), "weights must be at least 0"),
    (lambda: levels([2], [1, np.inf]), "weights must be finite"),
    (lambda: levels([2], [(0, [1, 2]), (2, [1, 2])]), "the place of weights must be in"),
    (lambda: levels([2], [(1, [1, 2]), (0, [1, 2])]), "ascending places"),
    (lambda: levels([2], [(0, [1, 2]), 1]), "pairs of a place and numbers"),
    (lambda: levels([2], [(0, 1), (1, 2)]), "a number for each level, or pairs"),
    (lambda: levels([2], [1, 2], noise=0.1), "leave out noise and descending"),
    (lambda: source_with(num_lanes=4), "one lane, got num_lanes=4"),
    (lambda: source_with(randomize=False), "no randomize=False"),
    (lambda: source_with(balance="samples"), "no balance"),
]


def levels(boundaries: Any, weights: Any, **options: Any) -> sh.ByScore:
    return sh.ByScore([1], boundaries=boundaries, weights=weights, **options)


def source_with(**options: Any) -> sh.MinibatchSource:
    return sh.MinibatchSource(corpus_of(), order=sh.ByScore(HARDNESS), **options)


@pytest.mark.parametrize(("make", "reason"), WRONG)
def test_what_contradicts_itself_is_refused(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


def test_a_mixture_has_no_order_by_score() -> None:
    mixture = sh.Mixture({"a": corpus_of(), "b": corpus_of()}, weights={"a": 1, "b": 1})
    with pytest.raises(ValueError, match="for one corpus"):
        sh.MinibatchSource(mixture, order=sh.ByScore("length"))


def test_what_is_no_order_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"order must be an sh.ByScore\(scores\), got list of 6"
    ):
        sh.MinibatchSource(corpus_of(), order=HARDNESS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="descending must be True or False"):
        sh.ByScore(HARDNESS, descending=1)  # type: ignore[arg-type]
