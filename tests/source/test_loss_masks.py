"""A loss mask is part of a stream: labels heed it, and how many count is planned."""

from __future__ import annotations

import pickle
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


def corpus_of(found: Sequences, mask_type: Any = np.bool_) -> sh.Deserializer:
    return sh.ArrayDeserializer(
        {
            "tokens": [np.array(tokens) for tokens, _ in found],
            "trained": [mask_type(mask) for _, mask in found],
        },
        STREAMS,
    )


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


def check(
    source: sh.MinibatchSource, size: int, workers: int, wanted: dict[int, int] | None
) -> None:
    """Check one sweep of shares against the labels that count."""
    start = source.get_checkpoint_state()
    shares = []
    for rank in range(workers):
        source.restore_from_checkpoint(start)
        mine = []
        while source.current_position < source.num_samples_per_sweep:
            mine.append(source.next_minibatch(size, None, None, workers, rank))
        shares.append(mine)
    delivered: dict[int, int] = {}
    for steps in zip(*shares, strict=True):
        own = [labels_of(step) for step in steps]
        assert [step.num_label_samples for step in steps] == [len(one) for one in own]
        assert {step.global_num_label_samples for step in steps} == {sum(map(len, own))}
        unshifted = [step["tokens"] for step in steps]
        assert {data.global_num_labels(shifted=False) for data in unshifted} == {
            sum(int((data.labels(shifted=False) != IGNORED).sum()) for data in unshifted)
        }
        for one in own:
            delivered |= one
    if wanted is not None:
        assert delivered == wanted


@given(
    sequences(),
    st.sampled_from(LAYOUTS),
    st.integers(1, 40),
    st.integers(1, 3),
    st.sampled_from(MASKS),
)
def test_labels_are_those_of_the_masks_and_counted_by_the_plan(
    found: Sequences, layout: sh.Layout, size: int, workers: int, mask_type: Any
) -> None:
    with sh.MinibatchSource(
        corpus_of(found, mask_type), layout=layout, num_lanes=3, num_threads=0, max_sweeps=1
    ) as source:
        planned = [one.global_num_label_samples for one in source.plan(size)]
        assert sum(planned) == len(expected(found))
        check(source, size, workers, expected(found))


@given(sequences())
def test_parts_of_a_step_say_their_own_labels(found: Sequences) -> None:
    with sh.MinibatchSource(
        corpus_of(found), layout=sh.Packed(12, micro_batch_rows=1), num_threads=0, max_sweeps=1
    ) as source:
        step = source.next_minibatch(10**6)
        parts = list(step.micro_batches())
        assert sum(part.num_label_samples for part in parts) == step.num_label_samples
        joined = {token: label for part in parts for token, label in labels_of(part).items()}
        assert joined == labels_of(step) == expected(found)
        labels = step["tokens"].labels()
        cut = [part.take(labels) for part in step.context_parts(2)]
        assert np.concatenate([one.reshape(-1) for one in cut]).size == labels.size
        again = pickle.loads(pickle.dumps(step["tokens"]))
        assert (again.labels() == labels).all()
        assert again.global_num_labels() == step.global_num_label_samples


def test_masks_of_files_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": [1, 2, 3], "m": [0, 1, 1]}\n{"t": [4, 5], "m": [1, 0]}\n')
    streams = {"t": sh.StreamDef(loss_mask="m", dtype="int32"), "m": sh.StreamDef()}
    for passes in (True, False):
        if not passes:
            monkeypatch.setattr("sweephand.maps.kept_pass.one_pass", None)
        with sh.MinibatchSource(sh.JSONLDeserializer(path, streams), max_sweeps=1) as source:
            assert source.next_minibatch(9).global_num_label_samples == 2
    path.write_text('{"t": [1, 2, 3], "m": [0, 0, 1]}\n{"t": [4, 5], "m": [1, 0]}\n')
    monkeypatch.undo()
    with sh.MinibatchSource(sh.JSONLDeserializer(path, streams), max_sweeps=1) as source:
        assert source.next_minibatch(9).global_num_label_samples == 1


def test_a_map_that_keeps_a_stream_keeps_its_mask() -> None:
    found: Sequences = [([1, 2, 3], [0, 0, 1]), ([4, 5], [0, 1])]

    def more(sequence: dict[str, Any]) -> dict[str, Any]:
        return {**sequence, "n": len(sequence["tokens"])}

    with sh.MinibatchSource(corpus_of(found).map(more), max_sweeps=1) as source:
        assert source.streams.tokens.loss_mask == "trained"
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
    with pytest.raises(sh.DataError, match=r"array__1.*the mask of sample 1 is NaN"):
        source([np.ones(3), np.array([1, np.nan])])
    with pytest.raises(
        ValueError, match="the loss mask 'trained' has float64 samples of shape"
    ):
        source([np.ones((3, 2)), np.ones((2, 2))])
    with pytest.raises(ValueError, match=r"is 'x', and there is no such stream among tokens"):
        source(mask, {**STREAMS, "tokens": sh.StreamDef(loss_mask="x")})
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
