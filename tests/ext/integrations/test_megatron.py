"""Two ranks get what Megatron's forward step takes, in every way of sharing the work."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.torch.drop_ins import ROW, batches, make_source
from tests.torch.launch import launch

import sweephand as sh
import sweephand.torch
from sweephand.ext.integrations.megatron import BATCH_KEYS, DataIterator, Place, get_batch

CELLS = ["labels", "loss_mask", "position_ids", "tokens"]
DOCUMENTS = ["cu_seqlens", "attention_mask", None]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("megatron")
    ranks = launch(2, ["megatron"], folder, "tests.torch.drop_ins")["megatron"]
    assert [rank.code for rank in ranks] == [0, 0]
    return [rank.found for rank in ranks]


@pytest.fixture(scope="module", params=DOCUMENTS, ids=str)
def case(request: pytest.FixtureRequest, two: list[dict[str, Any]]) -> tuple[Any, Any]:
    """Return how documents are told, and what each rank got, by way."""
    ways = {
        way: [rank[f"{way} {request.param}"] for rank in two]
        for way in ("dp", "cp", "pp", "tp")
    }
    return request.param, ways


def as_rows(batch: dict[str, Any], key: str) -> list[list[Any]]:
    return np.reshape(batch[key], (-1, ROW)).tolist()


def test_data_parallel_ranks_share_the_rows_of_one_process(case: tuple[Any, Any]) -> None:
    documents, ways = case
    for one, other, whole in zip(
        *(rank[:-1] for rank in ways["dp"]), batches(Place(), 3, documents, 4)[:-1], strict=True
    ):
        for key in CELLS:
            assert sorted(as_rows(one, key) + as_rows(other, key)) == sorted(
                as_rows(whole, key)
            )


def test_context_parallel_ranks_have_head_and_tail_of_a_sequence(case: tuple[Any, Any]) -> None:
    documents, ways = case
    for one, other, whole in zip(
        *(rank[:-1] for rank in ways["cp"]), batches(Place(), 3, documents)[:-1], strict=True
    ):
        for key in [*CELLS, "attention_mask"]:
            if whole[key] is None:
                continue
            axis = -2 if key == "attention_mask" else -1
            a, d = np.split(np.array(one[key]), 2, axis)
            b, c = np.split(np.array(other[key]), 2, axis)
            assert np.array_equal(np.concatenate([a, b, c, d], axis), whole[key])
        for key in ("cu_seqlens", "max_seqlen"):
            assert one[key] == other[key] == whole[key]


def test_pipeline_stages_have_what_they_need_and_tensor_peers_have_all(
    case: tuple[Any, Any],
) -> None:
    documents, ways = case
    whole = batches(Place(), 3, documents)
    first, last = ways["pp"]
    for step in range(3):
        for key in BATCH_KEYS:
            is_first, is_last = key in CELLS[2:], key in CELLS[:2]
            assert first[step][key] == (None if is_last else whole[step][key])
            assert last[step][key] == (None if is_first else whole[step][key])
    assert ways["tp"][0] == ways["tp"][1] == whole


def test_all_ranks_have_one_state_that_goes_on_with_other_numbers(
    two: list[dict[str, Any]],
) -> None:
    states = [rank["dp cu_seqlens"][-1]["state"] for rank in two]
    assert states[0] == states[1]
    whole = batches(Place(), 5, "cu_seqlens", 4)
    for ranks in (1, 4):
        found = [[], []]
        for rank in range(ranks):
            place = Place(ranks, rank)
            iterator = DataIterator(make_source(), 4 // ranks, place)
            iterator.load_state_dict(states[0])
            for rows in found:
                rows += get_batch(iterator, place=place)[-1].reshape(-1, ROW).tolist()
        for rows, batch in zip(found, whole[3:], strict=False):
            assert sorted(rows) == sorted(as_rows(batch, "tokens"))


def test_boundaries_labels_and_positions_are_those_of_the_layout() -> None:
    batch = next(DataIterator(make_source(), 6))
    minibatch = make_source().next_minibatch(6 * ROW)
    tokens = minibatch["tokens"]
    mask = tokens.loss_mask()
    assert np.array_equal(batch["tokens"], tokens.asarray())
    assert np.array_equal(batch["labels"], tokens.labels(0))
    assert np.array_equal(batch["loss_mask"], mask)
    assert np.array_equal(batch["position_ids"][minibatch.segment_ids > 0],
                          minibatch.position_ids[minibatch.segment_ids > 0])  # fmt: skip
    flat = get_batch(DataIterator(make_source(), 6))
    assert np.array_equal(flat[BATCH_KEYS.index("cu_seqlens")][0], tokens.dense_cu_seqlens)
    assert batch["cu_seqlens"].max(1).values.tolist() == [ROW] * 6


def test_a_mask_is_true_where_cells_must_not_look() -> None:
    batch = next(DataIterator(make_source(), 6, documents="attention_mask"))
    minibatch = make_source().next_minibatch(6 * ROW)
    looks = sh.torch.attention_mask(minibatch)
    assert (batch["attention_mask"] == ~looks).all()


def test_a_middle_stage_reads_nothing_and_goes_on_as_the_others() -> None:
    class Unread(sh.UserDeserializer):
        def stream_infos(self) -> sh.StreamDefs:
            return sh.StreamDefs(tokens=sh.StreamDef(shape=(), dtype=np.int64))

        def num_chunks(self) -> int:
            return 1

        def chunk_infos(self) -> list[tuple[int, int]]:
            return [(3, 24)]

        def sequence_lengths(self, chunk_id: int) -> Any:
            return np.full(3, 8)

        def get_chunk(self, chunk_id: int) -> Any:
            assert not is_open, "it is read"
            return {"tokens": [np.arange(8)] * 3}

    is_open = False
    source = sh.MinibatchSource(Unread(), layout=sh.Packed(ROW), num_threads=0)
    is_open = True
    place = Place(is_first_stage=False, is_last_stage=False)
    iterator = DataIterator(source, 1, place)
    batch = next(iterator)
    assert iterator.state_dict()["position"] > 0
    assert {key for key, value in batch.items() if value is not None} == {
        "cu_seqlens", "max_seqlen",
    }  # fmt: skip


def test_rows_that_cannot_be_split_are_refused() -> None:
    with pytest.raises(ValueError, match="must be a multiple of 6"):
        DataIterator(make_source(), 1, Place(cp_world_size=3))
    with pytest.raises(ValueError, match="documents must be"):
        DataIterator(make_source(), 1, documents="mask")


def test_finite_data_end() -> None:
    source = make_source(max_sweeps=1)
    found = [batch["tokens"].shape for batch in DataIterator(source, 4)]
    assert set(found) == {(4, ROW)}
    assert source.current_position == source.num_samples_per_sweep


def weighted_source() -> sh.MinibatchSource:
    data = {"tokens": [np.arange(5), np.arange(3)], "w": [np.linspace(0, 1, 5), np.ones(3) / 4]}
    streams = sh.StreamDefs(tokens=sh.StreamDef(label_weights="w"), w=sh.StreamDef())
    corpus = sh.ArrayDeserializer(data, streams)
    return sh.MinibatchSource(corpus, layout=sh.Packed(ROW), max_sweeps=1)


def test_a_loss_mask_is_the_weights_of_labels() -> None:
    batch = next(DataIterator(weighted_source(), 1))
    minibatch = weighted_source().next_minibatch(ROW)
    weights = minibatch["tokens"].label_weights()
    assert np.array_equal(batch["loss_mask"], weights.astype(np.float32))
    assert float(batch["loss_mask"].sum()) == minibatch.global_label_weight == 3.0


# -- sequences that are split each by itself --


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
