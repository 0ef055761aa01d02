"""Micro-batches of packed rows, and their cells over the ranks of a context."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import model, model_micro_batches
from tests.model import ModelSettings
from tests.model_layouts import Piece, packed_sweep
from tests.source.rows import IGNORED, KINDS, check_rows, check_segments, source_of
from tests.sources import as_served, engines
from tests.strategies import sequence_corpora, timelines

import sweephand as sh

ATTENTION = sh.Attention(equal_at=30)


def rows_of(minibatch: sh.Minibatch) -> list[list[int]]:
    """The sizes of what is in each row."""
    return [np.diff(np.unique(row)).tolist() for row in minibatch["tokens"].row_cu_seqlens]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_micro_batches_are_those_of_the_model(kind: str, data: st.DataObject) -> None:
    corpus, settings = as_served(kind, *data.draw(timelines(sequence_corpora())))
    length = data.draw(st.integers(1, 40))
    most = data.draw(st.integers(1, 4))
    balance = data.draw(st.sampled_from([None, "samples", ATTENTION]))
    rows: list[tuple[Piece, ...]] = [
        row.pieces
        for sweep in (0, 1)
        for row in packed_sweep(corpus, settings, length, 64, sweep)
    ]
    layout = sh.Packed(length, "split", micro_batch_rows=most)
    options = {"balance": balance, "max_sweeps": 2, **data.draw(engines())}
    with source_of(kind, corpus, settings, layout=layout, **options) as source:
        while rows:
            size = data.draw(st.integers(1, 12 * length))
            workers = data.draw(st.integers(1, 5))
            taken, rows = rows[: max(1, size // length)], rows[max(1, size // length) :]
            position = source.current_position
            served = []
            for rank in range(workers):
                source.current_position = position
                share = source.next_minibatch(
                    size, num_data_partitions=workers, partition_index=rank
                )
                assert share.global_num_samples == sum(p.size for row in taken for p in row)
                served.append(share.micro_batches())
                wanted = wanted_rows(taken, workers, rank, most, balance)
                assert [len(one) for one in wanted] == [most] * len(wanted)
                for micro, told in zip(served[-1], wanted, strict=True):
                    check_rows(micro, corpus, told, length)
                    check_segments(micro, told, length)
            assert len({len(micros) for micros in served}) == 1
            tokens = np.concatenate(
                [micro["tokens"].values for micros in served for micro in micros]
            )
            samples = sum(piece.size for row in taken for piece in row)
            assert len(tokens) == samples, "every token once"
        end = source.next_minibatch(length)
        assert not end
        assert end.micro_batches() == []


def wanted_rows(
    rows: list[tuple[Piece, ...]], workers: int, rank: int, most: int, balance: Any
) -> list[list[tuple[Piece, ...]]]:
    if balance is None:
        mine = rows[rank::workers]
        count = -(-len(rows) // (workers * most))
        mine += [()] * (count * most - len(mine))
        return [mine[i * most : (i + 1) * most] for i in range(count)]
    by = balance.equal_at if isinstance(balance, sh.Attention) else balance
    costs = [sum(model.cost(piece.size, by) for piece in row) for row in rows]
    groups = model_micro_batches.micro_batches(costs, workers, rank, most)
    return [[() if j is None else rows[j] for j in group] for group in groups]


def packed_source(
    sizes: NDArray[np.int64], layout: sh.Packed, **options: Any
) -> sh.MinibatchSource:
    tokens = np.arange(1, sizes.sum() + 1, dtype=np.int32)
    corpus = sh.ArrayDeserializer({"tokens": (tokens, np.cumsum([0, *sizes]))})
    return sh.MinibatchSource(corpus, layout=layout, max_sweeps=1, **options)


@st.composite
def packed(draw: st.DrawFn) -> tuple[sh.Minibatch, int, int]:
    """Rows of short and long sequences, their length, and some ranks that divide it."""
    ranks = draw(st.sampled_from([1, 2, 3, 4, 8]))
    length = 2 * ranks * draw(st.integers(1, 48))
    drawn = st.one_of(st.integers(1, length), st.integers(1, max(1, length // 8)))
    sizes = draw(st.lists(drawn, min_size=1, max_size=40).filter(lambda some: max(some) > 1))
    with packed_source(np.array(sizes), sh.Packed(length)) as source:
        return source.next_minibatch(draw(st.integers(1, 4)) * length), length, ranks


@given(packed(), st.sampled_from([1, 30, 1000, 24_576]))
def test_context_parts_are_those_of_the_model(
    drawn: tuple[sh.Minibatch, int, int], equal_at: int
) -> None:
    minibatch, length, ranks = drawn
    parts = minibatch.context_parts(ranks, sh.Attention(equal_at))
    rows = rows_of(minibatch)
    owners, cuts = model_micro_batches.context_owners(rows, length, ranks, equal_at)
    flat = np.concatenate(owners)
    data = minibatch["tokens"]
    whole = [data.asarray(), data.labels(), minibatch.segment_ids, minibatch.position_ids]
    for rank, part in enumerate(parts):
        assert part.cuts_sequences == cuts
        assert part.shape == part.cells.shape == (len(rows), length // ranks)
        assert np.array_equal(part.cells.ravel(), np.flatnonzero(flat == rank))
        for array in whole:
            assert np.array_equal(part.take(array).ravel(), array.ravel()[flat == rank])
        check_runs(part, minibatch)
        places = part.take(minibatch.position_ids)[part.take(minibatch.segment_ids) > 0]
        assert np.isclose(part.cost, (1 + (2 * places + 1) / equal_at).sum())
    labels = np.concatenate([part.take(data.labels()).ravel() for part in parts])
    assert (labels != IGNORED).sum() == data.loss_mask().sum()
    gathered = np.zeros_like(data.asarray())
    for part in parts:
        gathered.reshape(-1)[part.cells] = part.take(data.asarray())
    assert np.array_equal(gathered, data.asarray())


def check_runs(part: Any, minibatch: sh.Minibatch) -> None:
    queries = [np.arange(begin, end) for begin, end in part.q_ranges]
    assert np.array_equal(np.concatenate(queries), part.cells.ravel())
    segments, offsets = minibatch.segment_ids.ravel(), minibatch["tokens"].offsets
    length = minibatch.segment_ids.shape[1]
    values = minibatch["tokens"].asarray().ravel()
    for (begin, end), (first, last), sequence in zip(
        part.q_ranges, part.k_ranges, part.sequences, strict=True
    ):
        assert first <= begin < end == last
        assert begin // length == first // length == (end - 1) // length
        assert len(set(segments[first:last])) == 1
        assert first % length == 0 or segments[first - 1] != segments[first]
        if sequence < 0:
            assert segments[begin] == 0
        else:
            whole = minibatch["tokens"].values[offsets[sequence] : offsets[sequence + 1]]
            assert np.array_equal(values[first:last], whole[: last - first])
    for found, ranges, longest in (
        (part.cu_seqlens_q, part.q_ranges, part.max_seqlen_q),
        (part.cu_seqlens_k, part.k_ranges, part.max_seqlen_k),
    ):
        assert found.dtype == np.int32
        assert np.diff(found).tolist() == (ranges[:, 1] - ranges[:, 0]).tolist()
        assert longest == np.diff(found).max(initial=0)
    assert len(part.k_cells) == part.cu_seqlens_k[-1]


@given(packed())
def test_attention_of_the_parts_is_that_of_the_rows(
    drawn: tuple[sh.Minibatch, int, int],
) -> None:
    """What a kernel with variable lengths does, by query and key boundaries of each rank."""
    minibatch, length, ranks = drawn
    rows = minibatch.segment_ids.shape[0]
    rng = np.random.default_rng(len(minibatch.ids))
    q, k, v = rng.normal(size=(3, rows, length, 4))
    segments = minibatch.segment_ids
    may = (segments[:, :, None] == segments[:, None, :]) & np.tri(length, dtype=bool)
    wanted = attend(q, k, v, may)
    found = np.zeros_like(wanted)
    for part in minibatch.context_parts(ranks, ATTENTION):
        mine = part.take(q).reshape(-1, 4)
        keys, values = (whole.reshape(-1, 4)[part.k_cells] for whole in (k, v))
        outs = [
            attend(
                mine[q_begin:q_end],
                keys[k_begin:k_end],
                values[k_begin:k_end],
                # The last query looks at the last key, as in FlashAttention.
                np.tri(q_end - q_begin, k_end - k_begin, k_end - k_begin - (q_end - q_begin))
                > 0,
            )
            for (q_begin, q_end), (k_begin, k_end) in zip(
                itertools.pairwise(part.cu_seqlens_q),
                itertools.pairwise(part.cu_seqlens_k),
                strict=True,
            )
        ]
        found.reshape(-1, 4)[part.cells.ravel()] = np.concatenate(outs)
    assert np.allclose(found, wanted)


def attend(
    q: NDArray[np.float64], k: NDArray[np.float64], v: NDArray[np.float64], may: Any
) -> NDArray[np.float64]:
    scores = np.where(may, q @ k.swapaxes(-1, -2), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ v


def lengths_of(kind: str, row_length: int, num_samples: int) -> NDArray[np.int64]:
    """As of web pages, of code, or with some documents up to the length of a row."""
    rng = np.random.default_rng(5)
    count = num_samples // 500
    median, sigma = {"web": (600, 1.0), "code": (900, 1.5), "long": (600, 1.0)}[kind]
    lengths = rng.lognormal(np.log(median), sigma, count)
    if kind == "long":
        tail = np.exp(rng.uniform(np.log(row_length / 16), np.log(row_length), count))
        lengths = np.where(rng.random(count) < 0.03, tail, lengths)
    return np.clip(np.rint(lengths), 1, row_length).astype(np.int64)


@pytest.mark.parametrize(
    ("kind", "row_length", "workers", "ranks"),
    [
        ("web", 4096, 256, 4),
        ("code", 32_768, 32, 32),
        ("long", 131_072, 4, 256),
        ("long", 1 << 20, 1, 64),
    ],
)
def test_all_ranks_cost_nearly_the_same(
    kind: str, row_length: int, workers: int, ranks: int
) -> None:
    """4 M samples over up to 1,024 ranks; few rows for each worker are enough."""
    lengths = lengths_of(kind, row_length, 6_000_000)
    layout = sh.Packed(row_length, micro_batch_rows=2 if kind == "web" else 1)
    options = {"balance": "attention", "num_threads": 0}
    with packed_source(lengths, layout, **options) as source:
        costs = np.zeros((workers, ranks))
        some = range(0, workers, max(1, workers // 16))
        for worker in range(workers):
            source.current_position = 0
            (plan,) = itertools.islice(
                source.plan(1 << 22, num_data_partitions=workers, partition_index=worker), 1
            )
            costs[worker] = sh.Attention().cost(plan.sizes.astype(float)).sum() / ranks
            if worker in some:
                share = source.next_minibatch(
                    1 << 22, num_data_partitions=workers, partition_index=worker
                )
                parts = [micro.context_parts(ranks) for micro in share.micro_batches()]
                costs[worker] = [sum(p.cost for p in mine) for mine in zip(*parts, strict=True)]
    assert costs.max() / costs.mean() <= 1.02


def test_what_cannot_be_grouped_or_cut_says_what_to_write() -> None:
    sizes = np.array([3, 4, 5])
    with packed_source(sizes, sh.Packed(6)) as source:
        minibatch = source.next_minibatch(6)
    with pytest.raises(AttributeError, match=r"layout=Packed\(..., micro_batch_rows=n\)"):
        minibatch.micro_batches()
    with pytest.raises(
        ValueError, match="rows over 2 ranks must have a multiple of 4 cells, got 6"
    ):
        minibatch.context_parts(2)
    with pytest.raises(ValueError, match=r"num_ranks must be in \[1"):
        minibatch.context_parts(0)
    with pytest.raises(ValueError, match=r"rows must have the shape \(1, 6\)"):
        minibatch.context_parts(3)[0].take(minibatch["tokens"].asarray()[:, :4])
    with pytest.raises(ValueError, match="micro_batch_rows must be in"):
        sh.Packed(6, micro_batch_rows=0)
    with sh.MinibatchSource({"x": np.arange(5)}) as source:
        ragged = source.next_minibatch(2)
    with pytest.raises(AttributeError, match="context parts are of layout=Packed"):
        ragged.context_parts(1)


def test_a_state_knows_no_micro_batches() -> None:
    sizes = np.full(40, 5)
    with (
        packed_source(sizes, sh.Packed(10)) as plain,
        packed_source(sizes, sh.Packed(10, micro_batch_rows=3)) as grouped,
    ):
        plain.next_minibatch(50)
        grouped.restore_from_checkpoint(plain.get_checkpoint_state())
        assert grouped.get_checkpoint_state() == plain.get_checkpoint_state()
        assert grouped.next_minibatch(50).ids == plain.next_minibatch(50).ids


def test_an_order_without_a_shuffle_is_grouped_too() -> None:
    settings = ModelSettings(num_lanes=1, randomize=False)
    assert not settings.randomize
    sizes = np.array([6, 1, 6, 1, 6, 1])
    layout = sh.Packed(8, micro_batch_rows=2, look_ahead=1)
    with packed_source(sizes, layout, randomize=False, balance="attention") as source:
        micros = source.next_minibatch(24).micro_batches()
    assert [micro.num_samples for micro in micros] == [14, 7]
