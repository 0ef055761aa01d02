"""A simulated cluster is one that the planner would serve, by arithmetic that holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import LENGTHS, Call

import sweephand as sh
from sweephand import _core
from sweephand._core.compose import Fitting, Packing, Planner, Request
from sweephand.cli.cache_hits import CHUNKS, hits_of_known_future, hits_of_lru, needs
from sweephand.cli.cluster import Cluster
from sweephand.cli.simulate import quantity
from sweephand.cli.simulated_corpus import KINDS, SimulatedCorpus


def cluster(workers: int, lanes: int, block_chunks: int = 1) -> Cluster:
    return Cluster(workers, lanes, 1000, block_chunks, 2.0, 10_000.0, 8 << 20, 5500.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_simulated_corpus_has_about_the_samples_and_chunks_that_were_asked_for(
    kind: str,
) -> None:
    corpus = SimulatedCorpus.draw(kind, 10**10, 10**4, seed=1)
    assert len(corpus.chunk_samples) == 10**4
    assert corpus.num_samples == pytest.approx(10**10, rel=0.05)
    core = corpus.core()
    begin = 3 * len(corpus.tile) - 5
    assert core.sizes(begin, 9).tolist() == [*corpus.tile[-5:], *corpus.tile[:4]]
    assert core.num_samples == corpus.num_samples


def test_a_simulated_corpus_has_the_order_of_one_whose_lengths_are_all_there() -> None:
    corpus = SimulatedCorpus.of(np.array([3, 1, 4, 1, 5, 9], np.uint32), 400, 50)
    counts = np.full(50, corpus.chunk_sequences, np.uint64)
    sizes = np.resize(corpus.tile, 50 * corpus.chunk_sequences)
    stored = _core.index.Corpus(
        counts, corpus.chunk_samples, _core.index.StoredSizes(sizes.astype(np.uint32))
    )
    order = _core.order.OrderSettings(
        seed=5, num_lanes=4, window_chunks=8, window_samples=0, randomize=True
    )
    found = [
        _core.order.SweepTimeline(one, order).sequences(0, corpus.num_samples).tolist()
        for one in (corpus.core(), stored)
    ]
    assert found[0] == found[1]
    assert sorted(found[0]) == list(range(len(sizes)))


@pytest.mark.parametrize("block_chunks", [1, 3])
def test_the_chunks_that_are_read_are_those_of_the_planner(block_chunks: int) -> None:
    corpus = SimulatedCorpus.draw("chat", 10**6, 100, seed=2)
    lanes, workers, seed = 12, 5, 3
    order = _core.order.OrderSettings(
        seed=seed,
        num_lanes=lanes,
        window_chunks=lanes * block_chunks,
        window_samples=0,
        randomize=True,
    )
    planner = Planner(_core.order.SweepTimeline(corpus.core(), order), Fitting(), 2**64 - 1)
    reads = cluster(workers, lanes, block_chunks).reads(corpus.chunk_samples, seed)
    for rank in range(workers):
        planner.seek(0)
        plan = planner.next(
            Request(2**64 - 1, workers, rank, crosses_sweeps=True, balance=None)
        )
        chunks = np.unique(plan.sequences() // np.uint64(corpus.chunk_sequences))
        of_rank = len(range(rank, lanes, workers))
        assert len(chunks) <= reads[rank] <= len(chunks) + 2 * block_chunks * of_rank


@pytest.mark.parametrize(("workers", "lanes"), [(1024, 1024), (1000, 3072), (16_384, 16_384)])
def test_a_worker_reads_its_part_of_a_million_chunks_and_two_for_each_lane(
    workers: int, lanes: int
) -> None:
    corpus = SimulatedCorpus.draw("web", 10**12, 10**6, seed=0)
    reads = cluster(workers, lanes).reads(corpus.chunk_samples, 0)
    of_fullest = -(-lanes // workers)
    fair = len(corpus.chunk_samples) * of_fullest / lanes
    assert reads.max() <= 1.1 * fair + 2 * of_fullest
    assert reads.sum() <= len(corpus.chunk_samples) + lanes


def test_a_cache_with_a_known_future_hits_what_it_has_room_for() -> None:
    alone, shared = needs(1, 0), needs(8, 0)
    for room in (51, 128, 256, 384):
        assert hits_of_known_future(alone, room) == pytest.approx(room / CHUNKS, abs=0.01)
        assert hits_of_lru(shared, room) < hits_of_known_future(shared, room)
    assert hits_of_known_future(alone, CHUNKS) == hits_of_lru(alone, CHUNKS) == 1


def test_failures_cost_what_they_take() -> None:
    lost = [Cluster.lost(7.8, 1069 + loader) for loader in (5, 300, 3600)]
    assert lost == pytest.approx([0.097, 0.124, 0.422], abs=0.001)
    assert Cluster.lost(7.8, 28 * 3600) == 1


def test_lanes_that_another_number_of_workers_divides_leave_nobody_fuller() -> None:
    told = cluster(8, 48).resharing(6)
    assert told["excess_of_fullest"] == 0
    assert told["lanes_that_move"] == 36 / 48
    assert cluster(8, 48).resharing(5)["excess_of_fullest"] == pytest.approx(10 * 5 / 48 - 1)


def test_the_command_says_what_is_run_and_what_is_arithmetic(tokens: Path, call: Call) -> None:
    facts = call(
        "simulate", tokens, "--workers", 3, "--lanes", 12, "--size", 2000, "--json"
    ).facts
    assert facts["num_samples"] == LENGTHS.sum()
    assert facts["longest"] == LENGTHS.max()
    assert facts["planned"]["scale"] == 1
    shared = facts["planned"]["balance"]
    assert shared["samples"]["excess_of_fullest_in_samples"]["max"] < 0.02
    assert shared["attention"]["excess_of_fullest_in_cost"]["max"] < 0.02
    assert shared["lanes"]["share_of_samples_moved"] == 0
    assert [one["workers"] for one in facts["arithmetic"]["resharing"]] == [1, 2, 6]
    shown = call("simulate", tokens, "--workers", 3, "--lanes", 12, "--size", 2000).out
    assert "those of a run" in shown
    assert "by arithmetic" in shown


def test_packed_rows_are_shared_as_the_planner_shares_them(call: Call) -> None:
    words = ["simulate", "--workers", 8, "--samples", "1e8", "--chunks", 1000, "--lengths"]
    words += ["long", "--row-length", "131_072", "--size", "8_000_000", "--steps", 2]
    facts = call(*words, "--json").facts
    told = facts["planned"]["balance"]
    assert facts["row_length"] == 131_072
    assert list(told) == ["lanes", "attention", "micro-batches"]
    none, dealt, evenly = (one["excess_of_fullest_in_cost"]["mean"] for one in told.values())
    assert none > dealt > 0.9 * evenly
    assert evenly < 0.02
    assert told["lanes"]["share_of_samples_moved"] == 0
    assert "in 61 rows of 131,072" in call(*words).out


@pytest.mark.parametrize("micro_batch_rows", [0, 1, 3])
def test_the_owners_of_rows_are_those_who_get_them(micro_batch_rows: int) -> None:
    corpus = SimulatedCorpus.draw("web", 10**6, 100, seed=2)
    order = _core.order.OrderSettings(
        seed=1, num_lanes=4, window_chunks=8, window_samples=0, randomize=True
    )
    packing = Packing(2048, 64, True, False, micro_batch_rows)
    planner = Planner(_core.order.SweepTimeline(corpus.core(), order), packing, 2**64 - 1)
    cost = sh.Attention(100).in_integers
    whole = planner.next(Request(100_000, 1, 0, crosses_sweeps=True, balance=None))
    owners = _core.compose.row_owners(whole, 5, cost, micro_batch_rows)
    rows, _, firsts, _ = whole.cells().reshape(-1, 4).T
    for rank in range(5):
        planner.seek(0)
        share = planner.next(Request(100_000, 5, rank, crosses_sweeps=True, balance=cost))
        theirs = set(zip(share.sequences(), share.cells().reshape(-1, 4)[:, 2], strict=True))
        mine = owners[rows] == rank
        assert theirs == set(zip(whole.sequences()[mine], firsts[mine], strict=True))


def test_a_large_cluster_is_planned_at_a_part_of_its_size_and_says_so(call: Call) -> None:
    words = ["simulate", "--workers", 512, "--samples", "1e9", "--chunks", 10, "--steps", 1]
    facts = call(*words, "--window-chunks", 512 * 2, "--lengths", "chat", "--json").facts
    scale = facts["planned"]["scale"]
    assert scale > 1
    assert (
        f"at 1/{scale} of the size"
        in call(*words, "--window-chunks", 512 * 2, "--lengths", "chat").out
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--workers", 8, "--lanes", 4], "--workers 8 need as many lanes, got --lanes 4"),
        (["--chunks", "10**9"], "--chunks must be at most 100000000"),
        (["--workers", 1, "--size", "10**12"], "too many to plan here; give fewer --steps"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    words: list[object], reason: str, call: Call
) -> None:
    answer = call("simulate", *words)
    assert (answer.code, answer.out) == (1, "")
    assert reason in answer.err


def test_quantities_may_be_written_as_powers() -> None:
    assert quantity("10**12") == quantity("1e12") == quantity("1_000_000_000_000")
