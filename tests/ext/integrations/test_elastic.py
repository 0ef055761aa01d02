"""Workers come and go between steps, and a step that is aborted is delivered again."""

import random
from collections.abc import Callable

import numpy as np
import pytest

import sweephand as sh
import sweephand.torch
from sweephand.torch.distributed import ElasticSteps

SIZE = 40
LENGTHS = np.random.default_rng(1).integers(1, 12, 700)


def make_source() -> sh.MinibatchSource:
    offsets = np.cumsum([0, *LENGTHS])
    corpus = sh.ArrayDeserializer({"x": (np.arange(int(offsets[-1])), offsets)})
    return sh.MinibatchSource(corpus, num_threads=0, randomization_seed=4)


class Cluster:
    """Workers in one process, each with a source of its own, that know who is alive."""

    def __init__(self, most: int) -> None:
        self.alive = 1
        self.workers = [self._worker(rank) for rank in range(most)]

    def _worker(self, rank: int) -> ElasticSteps:
        return ElasticSteps(make_source(), SIZE, lambda: (self.alive, rank))

    def change(self, alive: int) -> None:
        """Let workers go, or let some join with the state of the first."""
        state = self.workers[0].state_dict()
        for worker in self.workers[self.alive : alive]:
            worker.load_state_dict(state)
        self.alive = alive

    def step(self, *, is_committed: bool = True) -> list[str]:
        """Take a step on all who are alive, and return what they had together."""
        alive = self.workers[: self.alive]
        shares = [worker.next() for worker in alive]
        for worker in alive:
            worker.commit(is_committed)
        return sorted(name for share in shares for name in share.ids)


def test_a_thousand_steps_are_those_of_one_process_while_workers_come_and_go() -> None:
    alone, cluster, draw = make_source(), Cluster(4), random.Random(3)
    whole = [sorted(alone.next_minibatch(SIZE).ids) for _ in range(1000)]
    found: list[list[str]] = []
    for alive in (4, 2, 3, 1, 4):
        cluster.change(alive)
        for _ in range(200):
            while draw.random() < 0.1:  # the quorum aborts some
                cluster.step(is_committed=False)
            found.append(cluster.step())
    assert found == whole


@pytest.mark.parametrize("give_back", [lambda steps: steps.commit(False), lambda steps: None])
def test_a_step_that_is_not_committed_counts_for_nothing(
    give_back: Callable[[ElasticSteps], None],
) -> None:
    steps = Cluster(1).workers[0]
    steps.next()
    steps.commit()
    stood, state = steps.current_position, steps.state_dict()
    lost = steps.next()
    assert (steps.current_position, steps.state_dict()) == (stood, state)
    give_back(steps)
    again = steps.next()
    assert (again.ids, again.nominal_time) == (lost.ids, stood)


def test_who_is_healed_in_the_middle_of_a_step_ends_it_where_the_others_do() -> None:
    first, late = (Cluster(1).workers[0] for _ in range(2))
    for _ in range(5):
        first.next()
        first.commit()
    late.next()  # of the begin, whose gradient torchft weights by zero
    first.next()
    late.load_state_dict(first.state_dict())
    for steps in (first, late):
        steps.commit()
    assert late.current_position == first.current_position
    assert late.next().ids == first.next().ids


def test_steps_end_with_the_data() -> None:
    source = sh.MinibatchSource({"x": np.arange(10)}, max_sweeps=1)
    steps = ElasticSteps(source, "4", lambda: (1, 0))
    counts = []
    for share in steps:
        counts.append(share.num_samples)
        steps.commit()
    assert counts == [4, 4, 2]
    with pytest.raises(RuntimeError, match="no step is open"):
        steps.commit()


class Manager:
    """What torchft's manager says."""

    replicas, rank = 0, None

    def num_participants(self) -> int:
        return self.replicas

    def participating_rank(self) -> int | None:
        return self.rank


def test_torchft_says_who_is_alive() -> None:
    manager = Manager()
    ask = sh.torchft.alive(manager, share=(2, 1))
    with pytest.raises(RuntimeError, match="no quorum yet"):
        ask()
    manager.replicas = 3
    assert ask() == (6, 1), "it is healed, and reads whatever share"
    manager.rank = 2
    assert ask() == (6, 5)
