"""Micro-batches of packed rows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import model, model_micro_batches
from tests.model_layouts import Piece, packed_sweep
from tests.source.rows import KINDS, check_rows, check_segments, source_of
from tests.sources import as_served, engines
from tests.strategies import sequence_corpora, timelines

import sweephand as sh

ATTENTION = sh.Attention(equal_at=30)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_micro_batches_are_those_of_the_model(kind: str, data: st.DataObject) -> None:
    corpus, settings = as_served(kind, *data.draw(timelines(sequence_corpora())))
    length = data.draw(st.integers(1, 40))
    most = data.draw(st.integers(1, 4))
    balance = data.draw(st.sampled_from([None, "samples", ATTENTION]))
    rows: list[tuple[Piece, ...]] = [
        row.pieces for row in packed_sweep(corpus, settings, length, 64, 0)
    ]
    layout = sh.Packed(length, "split", micro_batch_rows=most)
    options = {"balance": balance, "max_sweeps": 1, **data.draw(engines())}
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


def long_lengths(row_length: int, num_samples: int) -> NDArray[np.int64]:
    """As of web pages, with some documents up to the length of a row."""
    rng = np.random.default_rng(5)
    count = num_samples // 500
    lengths = rng.lognormal(np.log(600), 1.0, count)
    tail = np.exp(rng.uniform(np.log(row_length / 16), np.log(row_length), count))
    lengths = np.where(rng.random(count) < 0.03, tail, lengths)
    return np.clip(np.rint(lengths), 1, row_length).astype(np.int64)


@pytest.mark.parametrize(("row_length", "workers"), [(4096, 128), (32_768, 16), (131_072, 4)])
def test_all_workers_cost_nearly_the_same(row_length: int, workers: int) -> None:
    """4 M samples; eight rows for each worker are enough."""
    layout = sh.Packed(row_length, micro_batch_rows=1)
    options = {"balance": "attention", "num_threads": 0}
    with packed_source(long_lengths(row_length, 6_000_000), layout, **options) as source:
        costs = [
            sh.Attention().cost(next(source.plan(1 << 22, num_data_partitions=workers,
                                                 partition_index=worker)).sizes * 1.0).sum()
            for worker in range(workers)
        ]  # fmt: skip
    assert max(costs) / np.mean(costs) <= 1.02


def test_rows_are_grouped_only_where_that_is_asked_for() -> None:
    with packed_source(np.array([3, 4, 5]), sh.Packed(6)) as source:
        minibatch = source.next_minibatch(6)
    with pytest.raises(AttributeError, match="micro_batch_rows=n"):
        minibatch.micro_batches()
    with pytest.raises(ValueError, match="micro_batch_rows must be in"):
        sh.Packed(6, micro_batch_rows=0)


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
