"""Who gets what of a minibatch: by the model, for any number of workers, without reading."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import model
from tests.core import core_request, core_timeline
from tests.model import ModelCorpus, ModelSettings
from tests.strategies import timelines, workers

from sweephand import _core
from sweephand._core.compose import Fitting, Packing, Planner, ShareRule, Sharing

NO_LIMIT = 2**64 - 1
balances = st.one_of(st.sampled_from(["samples", "attention"]), st.integers(1, 50))


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
