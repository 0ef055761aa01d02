"""Sequences that are split each by itself, and those that a schedule gives to ranks."""

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
    ScheduledIterator,
    get_batch,
)  # fmt: skip

CELLS = ["labels", "loss_mask", "position_ids", "tokens"]
SIZE = 6 * ROW


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


def by_length(num_ranks: int, longest: int) -> Any:
    """Return a schedule: long sequences for all ranks, the others for one after the other."""

    def schedule(lengths: list[tuple[int, int]]) -> list[list[list[int]]]:
        groups = [[[one]] * num_ranks for one, length in lengths if length > longest]
        short = [one for one, length in lengths if length <= longest]
        return [*groups, [short[rank::num_ranks] for rank in range(num_ranks)]]

    return schedule


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("is_packed", [True, False])
def test_ranks_together_have_each_scheduled_document_once(
    num_ranks: int, is_packed: bool
) -> None:
    found: list[Any] = []
    tokens = 0
    for rank in range(num_ranks):
        place = Place(dp_world_size=num_ranks, dp_rank=rank)
        iterator = ScheduledIterator(make_source(), SIZE, by_length(num_ranks, 9), place)
        if is_packed:
            batches = list(iterator.micro_batches())
        else:
            batches = list(next(iterator)[0].values())
        for batch in batches:
            count = int(batch["local_cp_size"])
            part = named(get_batch(iter([batch]), place=place, group_of=str))
            assert part["hybrid_cp_group"] == (str(count) if count > 1 else None)
            tokens += int(part["loss_mask"].sum())
            if count > 1 and rank > 0:
                continue  # the first one has told of the document
            if is_packed:
                found += documents_of(batch)
            else:
                found.append([batch[key].tolist() for key in CELLS])
    expected = documents_of_rows()
    if not is_packed:
        for document in expected:  # padded for the ranks that share it
            size = len(document[0])
            multiple = 2 * num_ranks if size > 9 else 2
            for one in document:
                one += [0] * (-size % multiple)
    assert sorted(found) == sorted(expected)
    assert tokens == make_source().next_minibatch(SIZE).global_num_label_samples


def test_a_state_goes_on_with_another_number_of_ranks() -> None:
    iterator = ScheduledIterator(make_source(), SIZE, by_length(1, 99))
    next(iterator)
    state = iterator.state_dict()
    rest = list(iterator.micro_batches())
    place = Place(dp_world_size=1, cp_world_size=1)
    again = ScheduledIterator(make_source(), SIZE, by_length(1, 99), place)
    again.load_state_dict(state)
    assert [one["tokens"].tolist() for one in again.micro_batches()] == [
        one["tokens"].tolist() for one in rest
    ]


def test_finite_data_end() -> None:
    iterator = ScheduledIterator(make_source(max_sweeps=1), SIZE, by_length(1, 99))
    tokens = sum(
        sum(map(len, (one["position_ids"] for one in samples.values())))
        for samples, _ in iterator
    )
    assert tokens >= make_source().num_samples_per_sweep
    with pytest.raises(StopIteration):
        iterator.micro_batches()


@pytest.mark.parametrize(
    ("num_ranks", "groups", "reason"),
    [
        (2, lambda n: [[list(range(n))]], "group 0 of the schedule is for 1 ranks"),
        (4, lambda n: [[list(range(n)), [1], [1], []]], "sequence 1 is given to the ranks"),
        (4, lambda n: [[list(range(1, n)), [0], [0], []]], r"to the ranks \[1, 2\] in group 0"),
        (2, lambda n: [[list(range(n - 1)), []]], "the first that is lost or unknown is"),
        (2, lambda n: [[list(range(n + 1)), []]], "the first that is lost or unknown is"),
        (2, lambda n: [[list(range(n)), []], [[0], []]], "each comes once"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(num_ranks: int, groups: Any, reason: str) -> None:
    place = Place(dp_world_size=num_ranks)
    iterator = ScheduledIterator(make_source(), SIZE, lambda ids: groups(len(ids)), place)
    with pytest.raises(ValueError, match=reason):
        next(iterator)


def test_sequences_with_other_partners_do_not_make_a_micro_batch() -> None:
    def schedule(lengths: list[tuple[int, int]]) -> list[list[list[int]]]:
        return [[[one for one, _ in lengths], [0]]]

    iterator = ScheduledIterator(make_source(), SIZE, schedule, Place(dp_world_size=2))
    with pytest.raises(ValueError, match="shared by different ranks"):
        iterator.micro_batches()
