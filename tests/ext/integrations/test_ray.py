"""Workers of Ray Train come and go: two, one whose node is lost, and two again."""

import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.torch.launch import ROOT
from tests.torch.ranks import SIZE, make_source

import sweephand as sh

pytest.importorskip("ray.train", reason="Ray is not installed: pip install 'sweephand[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


# That a node is gone is found within seconds, not half a minute.
QUICK = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Begin a cluster on this machine, whose nodes have a processor each."""
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    head = NODE | {"include_dashboard": False, "_system_config": QUICK}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    paths = f"{ROOT}:{Path(sh.__file__).parents[1]}"
    variables = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    variables["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = "10"
    try:
        ray.init(cluster.address, runtime_env={"env_vars": variables}, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_workers_come_and_go_and_lose_nothing(cluster: Any, tmp_path: Path) -> None:
    import ray.train
    from ray.train.torch import TorchConfig, TorchTrainer
    from tests.ext.integrations.ray_worker import train

    journal = tmp_path / "journal"
    journal.mkdir()
    trainer = TorchTrainer(
        train,
        train_loop_config={"journal": str(journal)},
        torch_config=TorchConfig(backend="gloo", timeout_s=60),
        scaling_config=ray.train.ScalingConfig(
            num_workers=(1, 2), elastic_resize_monitor_interval_s=1
        ),
        run_config=ray.train.RunConfig(
            name="elastic",
            storage_path=str(tmp_path / "storage"),
            failure_config=ray.train.FailureConfig(max_failures=5),
        ),
    )
    second = cluster.add_node(**NODE)
    with ThreadPoolExecutor(1) as other:
        training = other.submit(trainer.fit)
        await_file(journal / "reported", training)
        cluster.remove_node(second, allow_graceful=False)
        await_file(journal / "alone", training)
        cluster.add_node(**NODE)
        result = training.result()
    lives = [json.loads(line) for line in (journal / "lives").read_text().splitlines()]
    print(lives)
    counts = [count for count, _ in lives]
    assert [counts[0], 1 in counts, counts[-1]] == [2, True, 2]
    assert result.metrics["weights"] == result.metrics["position"]
    found: dict[tuple[int, int], list[list[str]]] = {}
    for path in journal.glob("*.json"):
        position, count, ids = json.loads(path.read_text())
        found.setdefault((position, count), []).append(ids)
    alone = make_source(randomization_seed=5)
    while alone.current_position < result.metrics["position"]:
        position = alone.current_position
        whole = sorted(alone.next_minibatch(SIZE).ids)
        shares = [found.get((position, count), []) for count in (1, 2)]
        complete = [each for count, each in enumerate(shares, 1) if len(each) == count]
        assert complete, position
        for each in complete:
            assert sorted(name for ids in each for name in ids) == whole


def await_file(path: Path, training: Future[Any]) -> None:
    """Wait for what a worker writes, and no longer than there are any."""
    while not path.exists():
        assert not training.done(), training.result()
        time.sleep(0.05)


def test_outside_of_a_worker_there_is_no_coordinate() -> None:
    with pytest.raises(RuntimeError, match="this is no worker of Ray Train"):
        sh.ray.coordinate()


@pytest.mark.parametrize("kind", ["parquet", "megatron"])
def test_text_that_was_prepared_in_parallel_is_a_corpus_in_the_order_of_its_files(
    kind: str, tmp_path: Path
) -> None:
    script = ROOT / "examples" / "prepare_with_ray.py"
    example = runpy.run_path(str(script))
    files = example["example_of_text"](tmp_path)
    folder = tmp_path / "shards"
    command = [sys.executable, script, *files, "--folder", folder, "--to", kind]
    small = {"RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": str(80 * 2**20)}
    for is_again in (False, True):
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False,
            env=os.environ | small | {"RAY_USAGE_STATS_ENABLED": "0"},
        )  # fmt: skip
        assert run.returncode == 0, run.stderr[-4000:]
        assert "a source reads them all: True" in run.stdout
        if not is_again:  # what is there stays, what is not is made
            times = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
            (folder / f"text-1{example['WRITERS'][kind][1]}").unlink()
    kept = [path for path in folder.iterdir() if path.stem == "text-0"]
    assert all(path.stat().st_mtime_ns == times[path.name] for path in kept)
    assert {path.name for path in folder.iterdir()} == times.keys()
    with sh.MinibatchSource(
        example["open_shards"](folder, kind), randomize=False, max_sweeps=1
    ) as source:
        found = [
            one.tolist()
            for minibatch in source.minibatches(5000)
            for one in minibatch["tokens"].as_sequences()
        ]
    lines = [line for path in files for line in path.read_text().splitlines()]
    assert found == [example["tokenize"](line).tolist() for line in lines]
