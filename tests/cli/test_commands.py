"""What the commands say is so."""

from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import LENGTHS, OFFSETS, Call

import sweephand as sh
from sweephand.minibatch.content_digest import digest_of


def shares_of(
    path: Path, size: int, workers: int, **settings: object
) -> list[list[sh.Minibatch]]:
    return [
        list(
            sh.MinibatchSource(sh.open(path), max_sweeps=1, **settings).minibatches(
                size, num_data_partitions=workers, partition_index=rank
            )
        )
        for rank in range(workers)
    ]


def test_info_tells_streams_and_lengths(tokens: Path, call: Call) -> None:
    facts = call("info", tokens, "--chunk-size", 100, "--json").facts
    assert (facts["num_sequences"], facts["num_samples"]) == (300, LENGTHS.sum())
    assert facts["num_chunks"] == 3
    assert facts["lengths"]["min"] == LENGTHS.min()
    assert facts["lengths"]["median"] == np.median(LENGTHS)
    assert facts["first_id"] == "tokens.npz__0"
    assert [stream["name"] for stream in facts["streams"]] == ["tokens", "label"]


@pytest.mark.parametrize("workers", [1, 3])
def test_plan_foretells_what_is_delivered(tokens: Path, workers: int, call: Call) -> None:
    options = ["--size", 200, "--seed", 4, "--workers", workers, "--json"]
    facts = call("plan", tokens, *options).facts
    shares = shares_of(tokens, 200, workers, randomization_seed=4)
    steps = [sum(m.num_samples for m in step) for step in zip(*shares, strict=True)]
    cells = [
        sum(m["tokens"].lengths.max(initial=0) * m.num_sequences for m in step)
        for step in zip(*shares, strict=True)
    ]
    assert facts["steps"] == len(steps)
    assert facts["whole_sweep"]
    assert facts["samples_per_step"] == {
        "min": min(steps),
        "mean": pytest.approx(np.mean(steps)),
        "max": max(steps),
    }
    assert facts["layouts"]["padded"]["waste"] == pytest.approx(1 - sum(steps) / sum(cells))
    assert facts["layouts"]["ragged"]["waste"] == 0
    if workers > 1:
        loads = np.array([[m.num_samples for m in step] for step in zip(*shares, strict=True)])
        worst = (loads.max(axis=1) / loads.mean(axis=1) - 1).max()
        assert facts["share_imbalance"]["max"] == pytest.approx(worst)


def test_plan_shows_that_balance_evens_the_shares(tokens: Path, call: Call) -> None:
    options = ["--size", 1000, "--workers", 4, "--json"]
    lanes = call("plan", tokens, *options).facts["share_imbalance"]["mean"]
    evened = call("plan", tokens, *options, "--balance", "samples").facts["share_imbalance"]
    assert evened["mean"] < lanes / 3
    by_cost = call("plan", tokens, *options, "--balance", "attention").facts
    assert by_cost["share_cost_imbalance"]["mean"] < lanes / 3


def test_plan_compares_layouts_as_sources_deliver_them(tmp_path: Path, call: Call) -> None:
    tokens = tmp_path / "alone.npz"
    np.savez(tokens, tokens=np.zeros(OFFSETS[-1]), tokens_offsets=OFFSETS)
    workers, size = 2, 200
    options = ["--size", size, "--seed", 4, "--workers", workers, "--json"]
    facts = call("plan", tokens, *options).facts
    made = {"bucketed": sh.Bucketed("auto", 16), "packed": sh.Packed(64)}
    assert facts["layouts"]["bucketed"]["layout"] == 'Bucketed("auto", 16)'
    assert facts["layouts"]["packed"]["layout"] == "Packed(64)"
    for name, layout in made.items():
        shares = shares_of(tokens, size, workers, randomization_seed=4, layout=layout)
        grids = [[m["tokens"].dense_shape for m in step] for step in zip(*shares, strict=True)]
        cells = np.prod(grids, axis=2)
        found = facts["layouts"][name]
        assert found["steps"] == len(grids)
        assert found["shapes"] == len({shape for step in grids for shape in step})
        assert found["waste"] == pytest.approx(1 - LENGTHS.sum() / cells.sum())
        assert found["cells_per_step"] == pytest.approx(cells.sum(axis=1).mean())
        worst = (cells.max(axis=1) / cells.mean(axis=1) - 1).mean()
        assert found["imbalance"] == pytest.approx(worst)


def test_plan_recommends_what_pads_least_and_says_why(
    tokens: Path, rows: Path, call: Call
) -> None:
    def recommended(path: Path, *options: object) -> dict[str, str]:
        return call("plan", path, *options, "--json").facts["recommended"]

    packed = recommended(tokens, "--row-length", 512)
    assert packed["layout"] == "Packed(512)"
    assert "it pads" in packed["reason"]
    long = recommended(tokens, "--row-length", 2**20)
    assert long["layout"] == 'Bucketed("auto", 16)', "the corpus is less than a row"
    assert recommended(rows)["layout"] == "Ragged()"
    assert "Packed(512) is recommended" in call("plan", tokens, "--row-length", 512).out


def test_plan_tells_the_window(tokens: Path, call: Call) -> None:
    chunks = ["--size", 200, "--chunk-size", 10, "--json"]
    uniform = call("plan", tokens, *chunks).facts
    assert uniform["uniform"]
    window = call("plan", tokens, *chunks, "--window-chunks", 12, "--lanes", 4).facts
    assert not window["uniform"]
    assert (window["block_chunks"], window["open_chunks"], window["num_chunks"]) == (3, 12, 30)
    per_sample = call(
        "plan", tokens, *chunks, "--window-samples", LENGTHS.sum() * 2 // 5, "--lanes", 4
    ).facts
    assert per_sample["block_chunks"] == 2  # 2/5 of 30 chunks over 4 lanes, rounded down
    assert not call("plan", tokens, *chunks, "--no-shuffle").facts["shuffled"]
    some = call("plan", tokens, *chunks, "--steps", 3).facts
    assert (some["steps"], some["whole_sweep"]) == (3, False)


@pytest.mark.parametrize("step", [0, 7, 41])
def test_trace_tells_what_a_step_saw(tokens: Path, step: int, call: Call) -> None:
    facts = call("trace", tokens, "--step", step, "--size", 300, "--seed", 2, "--json").facts
    source = sh.MinibatchSource(sh.open(tokens), randomization_seed=2)
    for _ in range(step + 1):
        minibatch = source.next_minibatch(300)
    assert facts["ids"] == minibatch.ids
    assert facts["sizes"] == minibatch["tokens"].lengths.tolist()
    assert facts["digest"] == digest_of(minibatch)
    assert facts["nominal_time"] == minibatch.nominal_time
    assert facts["next_time"] == source.current_position
    assert facts["sweep"] == minibatch.nominal_time // LENGTHS.sum()


def test_trace_finds_a_step_of_rows_without_planning_the_ones_before(
    rows: Path, call: Call
) -> None:
    far = call("trace", rows, "--step", 10**12, "--size", 300, "--json").facts
    assert far["nominal_time"] == 300 * 10**12
    assert far["sweep"] == 300 * 10**12 // 1000


def test_trace_tells_what_one_worker_saw(tokens: Path, call: Call) -> None:
    options = ["--time", 900, "--size", 300, "--json"]
    whole = call("trace", tokens, *options).facts["ids"]
    shares = [
        call("trace", tokens, *options, "--workers", 3, "--rank", rank).facts["ids"]
        for rank in range(3)
    ]
    assert sorted(name for share in shares for name in share) == sorted(whole)
    wrong = call("trace", tokens, *options, "--workers", 3, "--rank", 3)
    assert (wrong.code, wrong.err) == (1, "")
    assert "partition_index" in wrong.facts["error"]


@pytest.mark.parametrize("sweep", [0, 3])
def test_find_is_the_inverse_of_trace(tokens: Path, sweep: int, call: Call) -> None:
    order = ["--size", 300, "--seed", 6]
    found = call("find", tokens, "tokens.npz__123", *order, "--sweep", sweep, "--json").facts
    traced = call("trace", tokens, *order, "--step", found["step"], "--json").facts
    place = traced["ids"].index("tokens.npz__123")
    assert found["nominal_time"] == traced["nominal_time"] + sum(traced["sizes"][:place])
    assert found["sweep"] == sweep


def test_verify_looks_at_everything(tokens: Path, call: Call) -> None:
    options = ["--size", 300, "--workers", 3, "--places", 4, "--chunk-size", 5]
    answer = call("verify", tokens, *options, "--window-chunks", 12, "--lanes", 4, "--json")
    assert answer.code == 0
    once, planned, resumed, shared = answer.facts["checks"]
    assert once["looked_at"] == 300
    assert planned["looked_at"] > 25
    assert resumed["looked_at"] == shared["looked_at"] > 4
    assert not any(check["broken"] for check in answer.facts["checks"])


def late(source: sh.MinibatchSource, state: dict[str, object]) -> None:
    RESTORE(source, state)
    source.next_minibatch(1)


def unshared(source: sh.MinibatchSource, size: int, **_: object) -> sh.Minibatch:
    return NEXT(source, size)


RESTORE, NEXT = sh.MinibatchSource.restore_from_checkpoint, sh.MinibatchSource.next_minibatch
SEQUENCES = "sweephand.minibatch.share.PlannedMinibatch.sequences"
SOURCE = "sweephand.source.source.MinibatchSource"


@pytest.mark.parametrize(
    ("name", "wrong", "broken"),
    [
        (f"{SOURCE}.restore_from_checkpoint", late, [2]),
        (f"{SOURCE}.next_minibatch", unshared, [3]),
        (SEQUENCES, property(lambda plan: np.minimum(plan._plan.sequences(), 298)), [0]),
    ],
    ids=["resumed at a wrong place", "shares overlap", "a sequence twice"],
)
def test_verify_notices(
    name: str,
    wrong: object,
    broken: list[int],
    tokens: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(name, wrong)
    answer = call("verify", tokens, "--size", 300, "--json")
    checks = answer.facts["checks"]
    assert answer.code == 1
    assert [number for number, check in enumerate(checks) if check["broken"]] == broken
    if broken == [0]:
        assert checks[0]["broken"] == ["sequence 298 came 2 times", "sequence 299 came 0 times"]


def test_bench_measures_source_and_memcpy(tokens: Path, call: Call) -> None:
    for layout in ("ragged", "padded"):
        options = ["--size", 300, "--seconds", 0.01, "--layout", layout]
        facts = call("bench", tokens, *options, "--threads", 0, "--json").facts
        for name in ("samples_per_second", "bytes_per_second", "memcpy_bytes_per_second"):
            assert 0 < facts[name]["min"] <= facts[name]["median"] <= facts[name]["max"]
        assert facts["layout"] == layout
        assert 0 < facts["first_minibatch_seconds"] < 60
