"""Sequences that are split each by itself."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from tests.torch.drop_ins import ROW, make_source

from sweephand.ext.integrations.megatron import (
    BATCH_KEYS,
    DataIterator,
    Place,
    get_batch,
)  # fmt: skip

CELLS = ["labels", "loss_mask", "position_ids", "tokens"]


def named(batch: Any) -> dict[str, Any]:
    return dict(zip(BATCH_KEYS, batch, strict=True))


def documents_of(batch: dict[str, Any]) -> list[Any]:
    """Return labels, loss mask, positions and tokens of each document, without padding."""
    ends, begins = batch["cu_seqlens"][0].diff(), batch["cu_seqlens_padded"][0][:-1]
    return [
        [batch[key][0, begin : begin + size].tolist() for key in CELLS]
        for begin, size in zip(begins.tolist(), ends.tolist(), strict=True)
    ]


def documents_of_rows(rows: int = 6) -> list[Any]:
    """Return the same of the minibatch of a source, by its segments."""
    minibatch = make_source().next_minibatch(rows * ROW)
    tokens = minibatch["tokens"]
    values = tokens.labels(0), tokens.loss_mask(), minibatch.position_ids, tokens.asarray()
    segments = minibatch.segment_ids
    return [
        [one[row][segments[row] == number].tolist() for one in values]
        for row in range(rows)
        for number in range(1, segments[row].max() + 1)
    ]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_ranks_have_head_and_tail_of_each_document(count: int) -> None:
    places = [Place(cp_world_size=count, cp_rank=rank) for rank in range(count)]
    parts = [
        named(get_batch(
            DataIterator(make_source(), 6, place, documents="cu_seqlens_padded"), place=place
        ))
        for place in places
    ]  # fmt: skip
    boundaries = parts[0]["cu_seqlens_padded"][0].tolist()
    assert all(part["cu_seqlens_padded"][0].tolist() == boundaries for part in parts)
    assert all(end % (2 * count) == 0 for end in boundaries)
    whole = {key: torch.zeros(1, boundaries[-1], dtype=parts[0][key].dtype) for key in CELLS}
    for rank, part in enumerate(parts):
        taken = 0
        for begin, end in pairwise(boundaries):
            size = (end - begin) // (2 * count)
            for first in (begin + rank * size, end - (rank + 1) * size):
                for key in CELLS:
                    whole[key][0, first : first + size] = part[key][0, taken : taken + size]
                taken += size
        assert part["tokens"].shape == (1, taken)
    joined = parts[0] | whole
    assert documents_of(joined) == documents_of_rows()
    assert (
        joined["loss_mask"].sum()
        == make_source().next_minibatch(6 * ROW).global_num_label_samples
    )
    assert joined["max_seqlen"].tolist() == [int(np.diff(boundaries).max())]


def test_a_middle_stage_has_the_boundaries_of_the_others() -> None:
    places = Place(), Place(is_first_stage=False, is_last_stage=False)
    reads, passes = (
        DataIterator(make_source(max_sweeps=1), 4, one, documents="cu_seqlens_padded")
        for one in places
    )
    for read, passed in zip(reads, passes, strict=True):
        assert passed["tokens"] is None
        for key in ("cu_seqlens", "cu_seqlens_padded", "max_seqlen"):
            assert read[key].equal(passed[key])


def test_a_rank_without_rows_has_an_empty_document() -> None:
    place = Place(dp_world_size=48, dp_rank=47, cp_world_size=2)  # there are fewer rows
    source = make_source(max_sweeps=1)
    iterator = DataIterator(source, 1, place, documents="cu_seqlens_padded")
    batch = named(get_batch(iterator, place=place))
    assert batch["cu_seqlens"].tolist() == [[0, 0]]
    assert batch["tokens"].tolist() == [[0, 0]]
    assert not batch["loss_mask"].any()
