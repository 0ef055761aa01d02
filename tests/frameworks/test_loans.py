"""A desk in an actor of Ray lends to tasks, and bears what Ray does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.loans.test_remote import go_through, make_source
from tests.torch.launch import ROOT

import sweephand as sh

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


def generate(desk: sh.ray.LoanDesk) -> int:
    trained = 0
    while not desk.is_finished:
        trained += len(desk.done(desk.take(2).tickets))
    return trained


def test_a_desk_of_ray_lends_to_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    paths = f"{ROOT}:{Path(sh.__file__).parents[1]}"
    ray.init(
        num_cpus=2,
        object_store_memory=80 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}},
    )
    try:
        go_through(sh.ray.LoanDesk(make_source, copies=2, num_cpus=0))
        desk = sh.ray.LoanDesk(make_source, copies=2, num_cpus=0)
        task: Callable[..., Any] = ray.remote(generate).remote
        assert sum(ray.get([task(desk) for _ in range(2)])) == 40
    finally:
        ray.shutdown()
