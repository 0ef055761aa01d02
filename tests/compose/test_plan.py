"""Planned minibatches are what is delivered, and nothing is read for them."""

import numpy as np
import pytest

import sweephand as sh


def ragged_corpus() -> sh.ArrayDeserializer:
    sizes = np.random.default_rng(0).integers(1, 30, 200)
    offsets = np.append(0, np.cumsum(sizes))
    return sh.ArrayDeserializer({"tokens": (np.arange(offsets[-1]), offsets)})


class Counted(sh.UserDeserializer):
    """Says what there is, and remembers what was read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef(dtype=np.float32, shape=()))

    def num_chunks(self) -> int:
        return 5

    def chunk_infos(self) -> list[tuple[int, int]]:
        return [(4, 4)] * 5

    def get_chunk(self, chunk_id: int) -> dict[str, object]:
        self.read.append(chunk_id)
        return {"x": np.zeros(4, np.float32)}


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("size", [1, 64, 5000])
def test_the_plan_is_what_is_delivered(workers: int, size: int) -> None:
    for rank in range(workers):
        shared = {"num_data_partitions": workers, "partition_index": rank}
        source = sh.MinibatchSource(ragged_corpus(), max_sweeps=2, num_threads=0)
        planned = list(source.plan(size, **shared))
        assert source.current_position == 0
        delivered = list(source.minibatches(size, **shared))
        assert [plan.ids for plan in planned] == [m.ids for m in delivered]
        assert [plan.sizes.tolist() for plan in planned] == [
            m["tokens"].lengths.tolist() for m in delivered
        ]
        for name in ("nominal_time", "num_samples", "global_num_samples", "sweeps_ended"):
            assert [getattr(p, name) for p in planned] == [getattr(m, name) for m in delivered]


def test_nothing_is_read_for_a_plan() -> None:
    corpus = Counted()
    with sh.MinibatchSource(corpus, max_sweeps=1, num_threads=0) as source:
        looked_at = list(corpus.read)
        assert sum(plan.num_samples for plan in source.plan(3)) == 20
        assert corpus.read == looked_at
        assert sum(minibatch.num_samples for minibatch in source.minibatches(3)) == 20
        assert sorted(set(corpus.read)) == [0, 1, 2, 3, 4]


def test_a_plan_begins_where_it_is_asked_to() -> None:
    source = sh.MinibatchSource(ragged_corpus(), max_sweeps=1)
    source.next_minibatch(100)
    here = source.current_position
    assert next(source.plan(100)).nominal_time == here
    assert next(source.plan(100, start=0)).nominal_time == 0
    later = next(source.plan(100, start=here + 1))
    source.current_position = here + 1
    assert later.nominal_time == source.current_position


def test_a_plan_follows_a_schedule() -> None:
    class Growing:
        def __getitem__(self, time: int) -> int:
            return 10 + time

    source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(100)}), max_sweeps=1)
    sizes = [plan.global_num_samples for plan in source.plan(Growing())]
    assert sizes == [10, 20, 40, 30]
