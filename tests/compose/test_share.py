"""Who gets what of a minibatch: by the model, for any number of workers, without reading."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import model
from tests.core import core_request, core_timeline
from tests.extent import draws
from tests.model import ModelCorpus, ModelSettings
from tests.strategies import timelines, workers

from sweephand import _core
from sweephand._core.compose import Fitting, Packing, Planner, ShareRule, Sharing

MANY = bool(os.environ.get("SWEEPHAND_SHARE_CASES"))
NO_LIMIT = 2**64 - 1
balances = st.one_of(st.sampled_from(["samples", "attention"]), st.integers(1, 50))
rng = np.random.default_rng(7)


def planner(
    corpus: ModelCorpus, order: ModelSettings, packing: Packing | None = None
) -> Planner:
    return Planner(core_timeline(corpus, order), packing or Fitting(), NO_LIMIT)


def core_cost(balance: str | int) -> _core.compose.Cost:
    equal_at = model.equal_at(balance)
    return _core.compose.Cost(equal_at or 1, equal_at is not None)


@given(st.data())
def test_owners_are_those_of_the_model(data: st.DataObject) -> None:
    corpus, order = data.draw(timelines(randomize=True))
    balance, count = data.draw(balances), data.draw(workers(order))
    size = data.draw(st.integers(1, 2 * corpus.num_samples))
    taken = model.minibatch(corpus, order, 0, size)
    lanes = [entry.lane for entry in taken]
    owners = [lane % count for lane in lanes]
    late = data.draw(st.booleans())
    costs = [model.cost(entry.size, balance) for entry in taken]
    whole = planner(corpus, order).next(core_request(size))
    for sharing, wanted in [
        (Sharing.DEAL, [j % count for j in range(len(taken))]),
        (Sharing.LANES, owners),
        (Sharing.EVEN_COUNTS, model.even_counts(lanes, count, order.num_lanes, late)),
        (Sharing.EVEN_COSTS, model.even_costs(owners, costs, count)),
        (Sharing.DEAL_COSTS, model.deal_costs(costs, count)),
    ]:
        rule = ShareRule(sharing, core_cost(balance), order.num_lanes, late)
        found = _core.compose.owners(whole, count, rule)
        assert found.tolist() == wanted


def lengths(kind: int, count: int) -> list[int]:
    """Equal, uniform, log-normal, and with a long tail."""
    if kind == 0:
        return [int(rng.integers(1, 50))] * count
    if kind == 1:
        return rng.integers(1, 99, count).tolist()
    found = np.clip(np.rint(rng.lognormal(5, 1, count)), 1, 8192)
    if kind == 3:
        found = np.where(rng.random(count) < 0.05, rng.integers(8192, 2**17, count), found)
    return found.astype(int).tolist()


@pytest.mark.parametrize("case", range(10_000 if MANY else 300))
def test_shares_unite_to_the_minibatch_for_numbers_of_workers_that_change(case: int) -> None:
    """With every balance, for 1 to 4,096 workers; 10,000 cases with SWEEPHAND_SHARE_CASES=1."""
    most = 64 if case % 10 else 4096 if MANY or case % 100 == 0 else 256
    sizes = lengths(case % 4, int(rng.integers(1, 400)))
    chunk = int(rng.integers(1, 20))
    corpus = ModelCorpus.of([sizes[i : i + chunk] for i in range(0, len(sizes), chunk)])
    order = ModelSettings(seed=case, num_lanes=int(rng.integers(most // 2, most) + 1))
    alone, shared = planner(corpus, order), planner(corpus, order)
    for _ in range(3):
        size = int(rng.integers(1, corpus.num_samples + 1))
        count = int(rng.integers(1, order.num_lanes + 1))
        balance = [None, "samples", "attention", 100][int(rng.integers(4))]
        time = alone.time
        whole = alone.next(core_request(size))
        is_small = count <= 64
        ranks = range(count) if is_small else rng.choice(count, 3, replace=False).tolist()
        shares = []
        for rank in ranks:
            shared.seek(time)
            plan = shared.next(core_request(size, count, rank, balance))
            assert (plan.num_samples, plan.next.time) == (whole.num_samples, whole.next.time)
            assert not plan.next.progress
            shares.append(plan.sequences().tolist())
        if is_small:
            assert sorted(itertools.chain(*shares)) == sorted(whole.sequences().tolist())
        if len(set(sizes)) > 1 or sizes[0] > 1:
            how = Sharing.LANES if balance is None else Sharing.EVEN_COSTS
            rule = ShareRule(how, core_cost(balance or "samples"), order.num_lanes, False)
            owner = _core.compose.owners(whole, count, rule)
            assert owner.max(initial=0) < count
            for rank, share in zip(ranks, shares, strict=True):
                assert share == whole.sequences()[owner == rank].tolist()


@settings(max_examples=40)
@given(
    st.sampled_from([(12, 2), (12, 3), (12, 4), (12, 6), (48, 2), (48, 3), (48, 4), (48, 6)]),
    st.integers(0, 150),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 9),
)
def test_even_shares_of_rows_open_few_chunks_of_others(
    lanes_and_workers: tuple[int, int], more: int, blocks: int, seed: int
) -> None:
    """A worker has its own lanes, and as many of the next one's as it takes from at a time."""
    num_lanes, count = lanes_and_workers
    size = num_lanes + more
    per_lane, rows = 4, 25
    corpus = ModelCorpus.of([[1] * rows] * (per_lane * num_lanes))
    window = num_lanes * per_lane // blocks
    order = ModelSettings(seed=seed, num_lanes=num_lanes, window_chunks=window)
    shared = planner(corpus, order)
    taken = min(size % count, count - size % count)  # from one worker, at most
    common = -(-taken // (size // num_lanes))
    for rank in range(count):
        shared.seek(0)
        opened = set()
        while shared.time + size <= corpus.num_samples:
            plan = shared.next(core_request(size, count, rank))
            assert plan.share_size == size // count + (rank < size % count)
            opened |= set((plan.sequences() // rows).tolist())
        # Where the halves of a sweep have other neighbours, two chunks of a lane may be open.
        both = per_lane // blocks * (blocks > 1)
        assert len(opened) <= per_lane * (num_lanes // count) + common * (per_lane + both)


def cost_of_row(plan: _core.compose.Plan, row: int, balance: str | int) -> int:
    rows = plan.cells().reshape(-1, 4)[:, 0]
    return sum(model.cost(size, balance) for size in plan.sizes()[rows == row].tolist())


@settings(max_examples=draws(200))
@given(st.data())
def test_packed_rows_are_dealt_by_cost_in_equal_numbers(data: st.DataObject) -> None:
    corpus, order = data.draw(timelines())
    packing = Packing(data.draw(st.integers(1, 40)), 8, True, 0)
    balance = data.draw(balances)
    core = planner(corpus, order, packing)
    for _ in range(3):
        size, count = data.draw(st.integers(1, 400)), data.draw(st.integers(1, 9))
        time = core.time
        whole = core.next(core_request(size))
        costs = [cost_of_row(whole, row, balance) for row in range(whole.global_rows)]
        owners = model.deal_costs(costs, count)
        sequences, rows = whole.sequences(), whole.cells().reshape(-1, 4)[:, 0]
        for rank in range(count):
            core.seek(time)
            plan = core.next(core_request(size, count, rank, balance))
            mine = [row for row, owner in enumerate(owners) if owner == rank]
            assert plan.num_rows == -(-whole.global_rows // count)
            assert plan.global_rows == whole.global_rows
            assert plan.next.time == whole.next.time
            assert plan.sequences().tolist() == [
                n for row in mine for n in sequences[rows == row].tolist()
            ]
            found = plan.cells().reshape(-1, 4)[:, 0]
            assert sorted(set(found.tolist())) == list(range(len(mine)))


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("attention", 2**14),
        ("attention", 2**16),
        ("attention", 2**18),
        ("samples", 2**16),
        ("samples", 2**18),
    ],
)
def test_the_fullest_worker_is_within_two_per_cent_where_lengths_allow(
    kind: str, share: int
) -> None:
    """64 workers with a lane each; one sequence alone may cost more. Few samples move."""
    draw = np.random.default_rng(7).lognormal(np.log(600), 1.2, 90_000)
    sizes = np.clip(np.rint(draw), 1, 32_768).astype(int)
    corpus = ModelCorpus.of(sizes.reshape(-1, 100).tolist())
    core = planner(corpus, ModelSettings(num_lanes=64))
    for _ in range(3):
        whole = core.next(core_request(64 * share))
        costs = np.array([model.cost(size, kind) for size in whole.sizes().tolist()], float)
        lanes, evened = (
            _core.compose.owners(whole, 64, ShareRule(how, core_cost(kind), 64, False))
            for how in (Sharing.LANES, Sharing.EVEN_COSTS)
        )
        loads = np.bincount(evened, costs, 64)
        assert loads.max() <= max(1.02 * loads.mean(), costs.max())
        moved = whole.sizes()[lanes != evened].sum() / whole.num_samples
        assert moved <= {2**14: 0.12, 2**16: 0.06, 2**18: 0.03}[share]
