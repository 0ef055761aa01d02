"""Parts of a sequence are segments of their own, and never leave each other."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh

IGNORED = -100
LAYOUTS: list[sh.Layout] = [
    sh.Ragged(),
    sh.Padded(),
    sh.Padded(side="left"),
    sh.Bucketed([4, 9]),
    sh.Packed(9),
    sh.Packed(20, micro_batch_rows=2, split_long="drop"),
]

Sequences = list[tuple[list[int], list[int], list[int]]]


@st.composite
def sequences(draw: st.DrawFn) -> Sequences:
    """Return sequences of different tokens, their parts and their masks."""
    found: Sequences = []
    first = 1  # 0 is padding
    for length in draw(
        st.lists(st.integers(1, 9), min_size=2, max_size=12).filter(lambda n: max(n) > 1)
    ):
        steps = draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
        mask = draw(st.lists(st.integers(0, 1), min_size=length, max_size=length))
        parts = np.cumsum(steps).tolist()
        found.append((list(range(first, first + length)), parts, mask))
        first += length
    return found


def corpus_of(found: Sequences, *, masked: bool, declared: bool = True) -> sh.Deserializer:
    streams = {
        "tokens": sh.StreamDef(
            loss_mask="mask" if masked else None,
            parts="part" if declared else None,
            defines_mb_size=True,
        ),
        "part": sh.StreamDef(),
        "mask": sh.StreamDef(),
    }
    data = {
        "tokens": [np.array(tokens) for tokens, _, _ in found],
        "part": [np.array(parts) for _, parts, _ in found],
        "mask": [np.array(mask) for _, _, mask in found],
    }
    return sh.ArrayDeserializer(data, streams)


def expected(found: Sequences, *, masked: bool) -> dict[int, int]:
    return {
        tokens[j]: tokens[j + 1]
        for tokens, parts, mask in found
        for j in range(len(tokens) - 1)
        if parts[j] == parts[j + 1] and (mask[j + 1] or not masked)
    }


def segments_of(found: Sequences) -> dict[int, list[int]]:
    """Return the tokens of each part by the first of them."""
    segments: dict[int, list[int]] = {}
    for tokens, parts, _ in found:
        for j, token in enumerate(tokens):
            if j == 0 or parts[j] != parts[j - 1]:
                first = token
                segments[first] = []
            segments[first].append(token)
    return segments


@given(
    sequences(), st.sampled_from(LAYOUTS), st.integers(1, 60), st.integers(1, 3), st.booleans()
)
def test_segments_labels_and_counts_are_those_of_the_parts(
    found: Sequences, layout: sh.Layout, size: int, workers: int, masked: bool
) -> None:
    wanted = segments_of(found)
    labels: dict[int, int] = {}
    seen: dict[int, list[int]] = {}
    options: dict[str, Any] = {"layout": layout, "num_lanes": 3, "max_sweeps": 1}
    with sh.MinibatchSource(
        corpus_of(found, masked=masked), num_threads=0, **options
    ) as source:
        planned = sum(one.global_num_label_samples for one in source.plan(size))
        for rank in range(workers):
            source.current_position = 0
            while source.current_position < source.num_samples_per_sweep:
                step = source.next_minibatch(size, None, None, workers, rank)
                data = step["tokens"]
                own = data.labels()
                tokens = data.asarray() if data.is_padded else data.values
                there = data.mask != 0 if data.is_padded else np.ones(len(tokens), np.bool_)
                pairs = zip(tokens[there].tolist(), own[there].tolist(), strict=True)
                mine = {token: label for token, label in pairs if label != IGNORED}
                assert step.num_label_samples == len(mine)
                assert (data.loss_mask() == (own != IGNORED)).all()
                labels |= mine
                bounds = data.cu_seqlens.tolist()
                ends = pairwise(bounds)
                cut = [data.values[begin:end].tolist() for begin, end in ends]
                assert max(map(len, cut), default=0) == data.max_seqlen
                for (sequence, part), segment in zip(step.parts.tolist(), cut, strict=True):
                    seen[segment[0]] = segment
                    assert segment[0] in data.as_sequences()[sequence]
                    assert set(step["part"].as_sequences()[sequence]) >= {part}
                check_rows(step, cut)
                if workers == 1:
                    assert step.global_num_label_samples == len(mine)
    assert labels == expected(found, masked=masked)
    assert planned == len(labels)
    assert seen == wanted


def check_rows(step: sh.Minibatch, cut: list[list[int]]) -> None:
    """Check segments, positions and boundaries of padded and packed rows."""
    data = step["tokens"]
    if not data.is_padded:
        return
    rows, segments, positions = data.asarray(), step.segment_ids, step.position_ids
    found = []
    for row, numbers, places in zip(rows, segments, positions, strict=True):
        for number in range(1, numbers.max(initial=0) + 1):
            here = numbers == number
            assert places[here].tolist() == list(range(here.sum()))
            found.append(row[here].tolist())
        assert (places[numbers == 0] == 0).all()
        assert ((numbers == 0) == (row == 0)).all()
    assert found == cut
    if not step.layout.has_segments:
        return
    flat = rows.reshape(-1)
    dense = data.dense_cu_seqlens
    held = [flat[begin:end].tolist() for begin, end in pairwise(dense)]
    assert [one for one in held if one in cut] == cut


@given(sequences())
def test_a_layout_may_name_the_parts(found: Sequences) -> None:
    declared = sh.MinibatchSource(
        corpus_of(found, masked=False), layout=sh.Packed(9), max_sweeps=1, num_threads=0
    )
    named = sh.MinibatchSource(
        corpus_of(found, masked=False, declared=False),
        layout=sh.Packed(9, parts="part"),
        max_sweeps=1,
        num_threads=0,
    )
    for one, other in zip(declared.minibatches(30), named.minibatches(30), strict=True):
        assert (one.segment_ids == other.segment_ids).all()
        assert (one["tokens"].labels() == other["tokens"].labels()).all()
        assert one.global_num_label_samples == other.global_num_label_samples
        for part in one.micro_batches() if one.layout.micro_batch_rows else [one]:
            again = pickle.loads(pickle.dumps(part))
            assert (again.segment_ids == part.segment_ids).all()
    plain = sh.MinibatchSource(
        corpus_of(found, masked=False, declared=False), layout=sh.Packed(9), max_sweeps=1
    )
    named.restore_from_checkpoint(plain.get_checkpoint_state())  # the order is the same
    for one in (declared, named, plain):
        one.close()


def test_layouts_that_cut_and_parts_that_do_not_fit_are_refused() -> None:
    found: Sequences = [([0, 1, 2], [0, 1, 1], [1, 1, 1]), ([3, 4], [0, 0], [1, 1])]
    corpus = corpus_of(found, masked=False)
    for layout in (sh.Packed(4, split_long="split"), sh.TruncatedBPTT(2), sh.Frames()):
        with pytest.raises(ValueError, match="sequences with parts are whole, and this layout"):
            sh.MinibatchSource(corpus, layout=layout)
    with pytest.raises(sh.DataError, match="the numbers of its parts descend"):
        sh.MinibatchSource(corpus_of([([0, 1], [1, 0], [1, 1]), found[0]], masked=False))
    with pytest.raises(
        ValueError, match="stream of parts of stream 'tokens' is 'x', and there"
    ):
        sh.MinibatchSource(corpus_of(found, masked=False, declared=False),
                           layout=sh.Packed(8, parts="x"))  # fmt: skip
    with sh.MinibatchSource(corpus, layout=sh.Packed(8)) as source:
        step = source.next_minibatch(8, input_map={"x": source.streams.tokens})
        with pytest.raises(ValueError, match="needs the parts of its sequences, 'part'"):
            step["x"].labels()
    with sh.MinibatchSource(corpus_of(found, masked=False, declared=False)) as source:
        step = source.next_minibatch(8)
    with pytest.raises(AttributeError, match=r"StreamDef\(parts="):
        _ = step.parts
