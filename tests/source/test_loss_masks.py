"""Masks and weights of labels are part of a stream: what counts is planned, to the bit."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh

IGNORED = -100
STREAMS = {
    "tokens": sh.StreamDef(loss_mask="trained", defines_mb_size=True),
    "trained": sh.StreamDef(),
}
LAYOUTS: list[sh.Layout] = [
    sh.Ragged(),
    sh.Padded(),
    sh.Bucketed([4, 9]),
    sh.Packed(9),
    sh.Packed(5, split_long="split"),
    sh.Packed(9, micro_batch_rows=2),
    sh.TruncatedBPTT(4),
]

Sequences = list[tuple[list[int], list[int]]]


@st.composite
def sequences(draw: st.DrawFn, first: int = 0) -> Sequences:
    """Return sequences of tokens that are all different, and their masks."""
    lengths = draw(
        st.lists(st.integers(1, 9), min_size=2, max_size=12).filter(lambda n: max(n) > 1)
    )
    found = []
    for length in lengths:
        mask = draw(st.lists(st.integers(0, 1), min_size=length, max_size=length))
        found.append((list(range(first, first + length)), mask))
        first += length
    return found


MASKS: list[Any] = [np.bool_, np.uint8, np.float32, lambda mask: np.array(mask) * 0.25]


WEIGHTED = sh.StreamDef(loss_mask="trained", label_weights="weight", defines_mb_size=True)
WEIGHTS = [None, "each", "one"]  # of every label, or of a sequence


def weight_of(token: int) -> float:
    return [1 / 3, 0.0, 7e15, -0.1, 2.5][token % 5]


def corpus_of(
    found: Sequences, mask_type: Any = np.bool_, weights: str | None = None
) -> sh.Deserializer:
    data: dict[str, Any] = {
        "tokens": [np.array(tokens) for tokens, _ in found],
        "trained": [mask_type(mask) for _, mask in found],
    }
    if weights == "each":
        data["weight"] = [np.array([*map(weight_of, tokens)]) for tokens, _ in found]
    elif weights == "one":
        data["weight"] = np.array([weight_of(tokens[0]) for tokens, _ in found])
    streams = {**STREAMS, **({"tokens": WEIGHTED, "weight": sh.StreamDef()} if weights else {})}
    return sh.ArrayDeserializer(data, streams)


def weights_of(found: Sequences, weights: str | None) -> dict[int, float]:
    """Return the weight of each token as a label."""
    if weights is None:
        return {token: 1.0 for tokens, _ in found for token in tokens}
    firsts = {token: tokens[0] for tokens, _ in found for token in tokens}
    return {token: weight_of(token if weights == "each" else firsts[token]) for token in firsts}


def expected(found: Sequences) -> dict[int, int]:
    """Return of each token the label that counts, if one does."""
    return {
        token: tokens[j + 1]
        for tokens, mask in found
        for j, token in enumerate(tokens[:-1])
        if mask[j + 1]
    }


def labels_of(step: sh.Minibatch) -> dict[int, int]:
    data = step["tokens"]
    tokens = data.asarray() if data.is_padded else data.values
    labels = data.labels()
    assert (data.loss_mask() == (labels != IGNORED)).all()
    there = data.mask != 0 if data.is_padded else np.ones(len(tokens), np.bool_)
    assert (labels[~there] == IGNORED).all()
    pairs = zip(tokens[there].tolist(), labels[there].tolist(), strict=True)
    return {token: label for token, label in pairs if label != IGNORED}


def label_weights_of(step: sh.Minibatch) -> dict[int, float]:
    """Return of each token the weight of its label, which others do not have."""
    data = step["tokens"]
    found, there = data.label_weights(), data.loss_mask()
    assert not found[~there].any()
    tokens = data.asarray() if data.is_padded else data.values
    return dict(zip(tokens[there].tolist(), found[there].tolist(), strict=True))


def in_order(numbers: Iterable[float]) -> float:
    return reduce(add, numbers, 0.0)


def check(
    source: sh.MinibatchSource,
    size: int,
    workers: int,
    wanted: dict[int, int],
    weights: dict[int, float],
) -> None:
    """Check one sweep of shares against the labels that count, and their weights."""
    planned = [one.global_label_weight for one in source.plan(size)]
    start = source.get_checkpoint_state()
    shares = []
    for rank in range(workers):
        source.restore_from_checkpoint(start)
        mine = []
        while source.current_position < source.num_samples_per_sweep:
            mine.append(source.next_minibatch(size, None, None, workers, rank))
        shares.append(mine)
    delivered: dict[int, int] = {}
    for steps, weight in zip(zip(*shares, strict=True), planned, strict=True):
        own = [labels_of(step) for step in steps]
        assert [step.num_label_samples for step in steps] == [len(one) for one in own]
        assert {step.global_num_label_samples for step in steps} == {sum(map(len, own))}
        unshifted = [step["tokens"] for step in steps]
        assert {data.global_num_labels(shifted=False) for data in unshifted} == {
            sum(int((data.labels(shifted=False) != IGNORED).sum()) for data in unshifted)
        }
        for one, step in zip(own, steps, strict=True):
            delivered |= one
            assert label_weights_of(step) == {token: weights[one[token]] for token in one}
        assert {step.global_label_weight for step in steps} == {weight}
        if workers == 1:  # which has all in the order of the timeline
            (labels,) = own
            pieces = [one.tolist() for one in steps[0]["tokens"].as_sequences()]
            sums = [[weights[labels[t]] for t in piece if t in labels] for piece in pieces]
            assert weight == in_order(map(in_order, sums))
    assert delivered == wanted


@given(
    sequences(),
    st.sampled_from(LAYOUTS),
    st.integers(1, 40),
    st.integers(1, 3),
    st.sampled_from(MASKS),
    st.sampled_from(WEIGHTS),
)
def test_labels_are_those_of_the_masks_and_counted_by_the_plan(
    found: Sequences,
    layout: sh.Layout,
    size: int,
    workers: int,
    mask_type: Any,
    weights: str | None,
) -> None:
    corpus = corpus_of(found, mask_type, weights)
    with sh.MinibatchSource(
        corpus, layout=layout, num_lanes=3, num_threads=0, max_sweeps=1
    ) as source:
        planned = [one.global_num_label_samples for one in source.plan(size)]
        assert sum(planned) == len(expected(found))
        check(source, size, workers, expected(found), weights_of(found, weights))


@given(sequences(), st.sampled_from([4, 8, 24]), st.integers(1, 3))
def test_parts_of_a_share_say_their_own_labels(
    found: Sequences, row_length: int, workers: int
) -> None:
    """Micro-batches, and what comes from another process."""
    with sh.MinibatchSource(
        corpus_of(found, weights="each"),
        layout=sh.Packed(row_length, "split", micro_batch_rows=2),
        num_threads=0,
        max_sweeps=1,
    ) as source:
        step = source.next_minibatch(10**6, num_data_partitions=workers)
        parts = list(step.micro_batches())
        assert sum(part.num_label_samples for part in parts) == step.num_label_samples
        joined = {token: label for part in parts for token, label in labels_of(part).items()}
        assert joined == labels_of(step)
        assert {part.global_num_label_samples for part in parts} == {len(expected(found))}
        labels = step["tokens"].labels()
        again = pickle.loads(pickle.dumps(step["tokens"]))
        assert (again.labels() == labels).all()
        assert again.global_num_labels() == step.global_num_label_samples
        weights = step["tokens"].label_weights()
        assert (again.label_weights() == weights).all()
        assert {part.global_label_weight for part in parts} == {step.global_label_weight}
        whole = pickle.loads(pickle.dumps(step))
        assert whole.global_label_weight == step.global_label_weight


def test_masks_of_files_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    rows = '{"t": [1, 2, 3], "m": [0, 1, 1], "w": [9, 0.5, %s]}\n'
    rows += '{"t": [4, 5], "m": [1, 0], "w": [1, 1]}\n'
    path.write_text(rows % "0.25")
    tokens = sh.StreamDef(loss_mask="m", label_weights="w", dtype="int32")
    streams = {"t": tokens, "m": sh.StreamDef(), "w": sh.StreamDef()}
    for passes in (True, False):
        if not passes:
            monkeypatch.setattr("sweephand.maps.kept_pass.one_pass", None)
        with sh.MinibatchSource(sh.JSONLDeserializer(path, streams), max_sweeps=1) as source:
            step = source.next_minibatch(9)
            assert (step.global_num_label_samples, step.global_label_weight) == (2, 0.75)
    path.write_text(rows % "4")
    monkeypatch.undo()
    with sh.MinibatchSource(sh.JSONLDeserializer(path, streams), max_sweeps=1) as source:
        assert source.next_minibatch(9).global_label_weight == 4.5


def test_a_map_that_keeps_a_stream_keeps_its_mask() -> None:
    found: Sequences = [([1, 2, 3], [0, 0, 1]), ([4, 5], [0, 1])]

    def more(sequence: dict[str, Any]) -> dict[str, Any]:
        return {**sequence, "n": len(sequence["tokens"])}

    with sh.MinibatchSource(corpus_of(found).map(more), max_sweeps=1) as source:
        assert source.streams.tokens.definition.loss_mask == "trained"
        step = source.next_minibatch(9)
        assert (step.global_num_label_samples, labels_of(step)) == (2, {2: 3, 4: 5})


def test_masks_that_do_not_fit_are_refused() -> None:
    tokens, mask = [np.arange(3), np.arange(2)], [np.ones(3), np.ones(1)]

    def source(trained: Any, streams: Any = STREAMS) -> sh.MinibatchSource:
        return sh.MinibatchSource(
            sh.ArrayDeserializer({"tokens": tokens, "trained": trained}, streams)
        )

    with pytest.raises(sh.DataError, match=r"it has 1 values for the 2 samples of 'tokens'"):
        source(mask)
    with pytest.raises(sh.DataError, match=r"array__1.*the mask of sample 1 is nan"):
        source([np.ones(3), np.array([1, np.nan])])
    with pytest.raises(ValueError, match="the loss mask 'trained'"):
        source([np.ones((3, 2)), np.ones((2, 2))])
    with pytest.raises(ValueError, match=r"is 'x', and there is no such stream among tokens"):
        source(mask, {**STREAMS, "tokens": sh.StreamDef(loss_mask="x")})
    for bad in (np.nan, -np.inf):
        weighted = {**STREAMS, "tokens": sh.StreamDef(label_weights="trained")}
        with pytest.raises(
            sh.DataError, match=r"array__1.*the weight of sample 1 is"
        ) as raised:
            source([np.ones(3), np.array([1, bad])], weighted)
        assert (raised.value.stream, raised.value.sequence) == ("trained", "array__1")
        with pytest.raises(sh.DataError, match=r"array__1.*the weight of sample 0 is"):
            source(np.array([1, bad]), weighted)
    with pytest.raises(ValueError, match="label weights are of next tokens"):
        source(tokens, {"tokens": sh.StreamDef(label_weights="trained", dtype="float32")})
    with pytest.raises(ValueError, match="without transforms"):
        source(tokens, {**STREAMS, "trained": sh.StreamDef(transforms=[np.negative])})
    with pytest.raises(ValueError, match="the labels are the stream 'labels'"):
        sh.MinibatchSource(
            sh.ArrayDeserializer(
                {"x": tokens, "labels": tokens, "w": tokens},
                sh.StreamDefs(x=sh.StreamDef(label_weights="w")),
            )
        )
    with pytest.raises(ValueError, match="one stream of a source has a loss mask"):
        source(
            tokens, {"tokens": STREAMS["tokens"], "trained": sh.StreamDef(loss_mask="tokens")}
        )
    with pytest.raises(TypeError, match="loss_mask is the name of a stream"):
        sh.StreamDef(loss_mask=3)  # type: ignore[arg-type]
    found: Sequences = [([1, 2, 3], [0, 0, 1]), ([4, 5], [0, 1])]
    plain = sh.ArrayDeserializer({"tokens": [np.arange(3)], "trained": [np.ones(3, bool)]})
    mixture = sh.Mixture({"a": corpus_of(found), "b": plain}, weights={"a": 1, "b": 1})
    with pytest.raises(ValueError, match="loss_mask=trained"):
        sh.MinibatchSource(mixture)
    with sh.MinibatchSource(corpus_of(found)) as whole:
        step = whole.next_minibatch(5, input_map={"x": whole.streams.tokens})
        with pytest.raises(ValueError, match="needs its loss mask, 'trained': ask for that"):
            step["x"].labels()
