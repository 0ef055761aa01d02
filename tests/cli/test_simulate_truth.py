"""What `simulate` says of PATH is what as many processes get: shares, loads and chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cli.conftest import Call

import sweephand as sh

SIZE, WORKERS, STEPS = 6000, 5, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return chunked data of very unequal lengths."""
    rng = np.random.default_rng(5)
    lengths = np.clip(rng.lognormal(4, 1.1, 3000), 1, 900).astype(np.int64)
    offsets = np.append(0, lengths.cumsum())
    path = tmp_path_factory.mktemp("truth") / "tokens.npz"
    np.savez(path, tokens=np.arange(offsets[-1], dtype=np.int32), tokens_offsets=offsets)
    return path


def run(path: Path, from_step: int, **options: Any) -> list[list[sh.Minibatch]]:
    """Return the shares of each worker in the steps that are looked at."""
    shares = []
    for rank in range(WORKERS):
        corpus = sh.open(path, chunk_size=50)
        with sh.MinibatchSource(corpus, randomization_seed=3, **options) as source:
            mine = [
                source.next_minibatch(SIZE, num_data_partitions=WORKERS, partition_index=rank)
                for _ in range(from_step + STEPS)
            ]
        shares.append(mine[from_step:])
    return shares


def excesses(loads: NDArray[Any]) -> list[float]:
    """Return the excess of the fullest worker in each step."""
    return (loads.max(axis=0) / loads.mean(axis=0) - 1).tolist()


@pytest.mark.parametrize("from_step", [0, 7])
@pytest.mark.parametrize("row_length", [None, 1000])
@pytest.mark.parametrize("balance", ["lanes", "samples", "attention"])
def test_loads_costs_and_chunks_are_those_of_a_run(
    folder: Path, call: Call, from_step: int, row_length: int | None, balance: str
) -> None:
    if row_length and balance == "samples":
        pytest.skip("rows are dealt by cost")
    words = ["simulate", folder, "--chunk-size", 50, "--seed", 3, "--size", SIZE, "--json"]
    words += ["--workers", WORKERS, "--steps", STEPS, "--from-step", from_step]
    words += ["--window-chunks", 8, "--equal-at", 200]
    words += ["--row-length", row_length] if row_length else []
    facts = call(*words).facts
    told = facts["planned"]["balance"][balance]

    rule = {"lanes": None, "samples": "samples", "attention": sh.Attention(equal_at=200)}
    layout = sh.Packed(row_length, split_long="split") if row_length else None
    shares = run(
        folder,
        from_step,
        balance=rule[balance],
        randomization_window_in_chunks=8,
        layout=layout,
    )
    samples = np.array([[step.num_samples for step in mine] for mine in shares])
    cost = sh.Attention(equal_at=200).cost
    costs = np.array(
        [
            [cost(np.diff(step["tokens"].offsets).astype(np.float64)).sum() for step in mine]
            for mine in shares
        ]
    )
    assert facts["planned"]["first_step"] == from_step
    assert facts["planned"]["first_nominal_time"] == shares[0][0].nominal_time
    found = told["excess_of_fullest_in_samples"]
    assert found["by_step"] == pytest.approx(excesses(samples))
    assert found["max"] == pytest.approx(max(excesses(samples)))
    assert told["excess_of_fullest_in_cost"]["by_step"] == pytest.approx(excesses(costs))
    chunks = [
        len({int(one.rpartition("__")[2]) // 50 for step in mine for one in step.ids})
        for mine in shares
    ]
    assert told["chunks_of_a_worker"] == {"mean": np.mean(chunks), "max": max(chunks)}


def test_images_that_are_shared_evenly_are_those_of_a_run(tmp_path: Path, call: Call) -> None:
    np.save(tmp_path / "rows.npy", np.arange(4000).reshape(1000, 4))
    words = ["simulate", tmp_path / "rows.npy", "--workers", 3, "--lanes", 4, "--size", 101]
    words += ["--steps", 9, "--json", "--chunk-size", 10, "--window-chunks", 4]
    told = call(*words).facts["planned"]["balance"]["lanes"]
    reads = []
    for rank in range(3):
        corpus = sh.open(tmp_path / "rows.npy", chunk_size=10)
        with sh.MinibatchSource(
            corpus, num_lanes=4, randomization_window_in_chunks=4
        ) as source:
            plans = source.plan(101, num_data_partitions=3, partition_index=rank)
            mine = [share.sequences for share, _ in zip(plans, range(9), strict=False)]
        reads.append(len(np.unique(np.concatenate(mine) // 10)))
    assert told["chunks_of_a_worker"] == {"mean": np.mean(reads), "max": max(reads)}


def test_a_step_that_no_run_reaches_is_refused(tmp_path: Path, call: Call) -> None:
    script = tmp_path / "few.py"
    script.write_text(
        "import numpy as np, sweephand as sh\n"
        "rows = sh.ArrayDeserializer({'x': np.arange(40).reshape(10, 4)})\n"
        "few = sh.Mixture({'rows': rows}, weights={'rows': 1}, at_end='drop')\n"
    )
    answer = call("simulate", f"{script}:few", "--workers", 2, "--size", 4, "--from-step", 9)
    assert answer.code == 1
    assert "the data end before step 9; give a smaller --from-step" in answer.err
