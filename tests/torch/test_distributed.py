"""Two ranks train as one, stop as one and fail as one."""

import pickle
from typing import Any

import pytest
from tests.torch.launch import Ended, launch
from tests.torch.ranks import IN_TIME, ROWS, SIZE, make_dataset, make_source

import sweephand as sh
import sweephand.torch

Stories = dict[str, list[Ended]]


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Stories:
    """Run all that two ranks do, from one import of torch."""
    folder = tmp_path_factory.mktemp("ranks")
    return launch(2, ["agree", "iterate", "stalls_in_gather"], folder, "tests.torch.ranks")


@pytest.fixture(scope="module")
def agreed(stories: Stories) -> list[dict[str, Any]]:
    assert [rank.code for rank in stories["agree"]] == [0, 0]
    found = [rank.found for rank in stories["agree"]]
    assert [rank["coordinate"] for rank in found] == [[2, 0], [2, 1]]
    assert [rank["sums"] for rank in found] == [[[1.0, 1.0], True]] * 2
    return found


def test_sources_that_differ_are_found_before_the_first_step(
    agreed: list[dict[str, Any]],
) -> None:
    assert (
        agreed[0]["differing"]
        == agreed[1]["differing"]
        == [
            "ValueError",
            "the sources of the ranks differ: rank 1: seed is 1 there and 0 on rank 0",
        ]
    )
    assert agreed[0]["alike"] == agreed[1]["alike"] == ["nothing", ""]


def test_shares_unite_to_the_minibatches_of_one_process(agreed: list[dict[str, Any]]) -> None:
    whole = list(make_source(max_sweeps=2, randomization_seed=3).minibatches(SIZE))
    assert len(agreed[0]["shares"]) == len(agreed[1]["shares"]) == len(whole)
    for one, other, together in zip(*(rank["shares"] for rank in agreed), whole, strict=True):
        assert sorted(one[0] + other[0]) == sorted(together.ids)
        assert one[1:3] == other[1:3] == [together.num_samples] * 2
        assert one[3] + other[3] == together.num_samples
    assert not all(share[0] for rank in agreed for share in rank["shares"]), "some are empty"


def test_what_one_rank_cannot_read_is_the_same_error_on_all(
    agreed: list[dict[str, Any]],
) -> None:
    for rank in agreed:
        (kind, said), delivered, position = rank["failure"]
        assert kind == "FileNotFoundError"
        assert "on rank 1: no such chunk" in said
        assert "part-3" in said
        assert (delivered, position) == ([0, 8, 16], 24), "the step is given back"
        (kind, said), *_ = rank["odd failure"]
        assert (kind, said) == ("WorkerError", "on rank 1: OddError: (1, 2)")
        assert rank["both fail"] == ["KeyError", "'on rank 0: k0'"]
        assert rank["has no counts"] == ["KeyError", "'on rank 1: k1'"]


def test_ranks_that_would_train_on_different_minibatches_say_so(
    agreed: list[dict[str, Any]],
) -> None:
    for rank in agreed:
        kind, said = rank["parted"]
        assert kind == "WorkerError"
        assert "rank 1 is to train on another minibatch" in said
        assert "(0, 19" in said
        assert "(0, 9" in said


def test_all_stop_where_one_is_asked_to(agreed: list[dict[str, Any]]) -> None:
    assert agreed[0]["stop"] == agreed[1]["stop"]
    steps, position, is_stopped = agreed[0]["stop"]
    source = make_source()
    whole = [source.next_minibatch(SIZE).num_samples for _ in range(3)]
    assert (steps, position, is_stopped) == (3, sum(whole), True)


def test_a_rank_that_stalls_while_others_gather_is_named(stories: Stories) -> None:
    assert [rank.code for rank in stories["stalls_in_gather"]] == [0, -9]
    kind, said, seconds = stories["stalls_in_gather"][0].found
    assert (kind, "rank 1 of 2 did not answer within 2 s" in said) == ("WorkerError", True)
    assert 2 <= seconds < IN_TIME


def test_two_ranks_see_every_row_once_in_every_sweep(stories: Stories) -> None:
    seen = [rank.found for rank in stories["iterate"]]
    for way in ("plain", "fork", "spawn", "resumed"):
        assert len(seen[0][way]) == len(seen[1][way]) == 4
        rows = [row for item in seen[0][way] + seen[1][way] for row in item]
        assert sorted(rows) == list(range(ROWS))
    assert len({str(seen[0][way]) for way in seen[0]}) == 5
    assert "split minibatches that the ranks share already" in seen[0]["dealt"][0][1]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_several_processes_without_a_group_are_refused(
    num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = sh.torch.DataLoader(make_dataset(), num_workers=num_workers)
    with pytest.raises(RuntimeError, match=r"WORLD_SIZE is 2, but torch\.distributed is not"):
        next(iter(loader))
    with pytest.raises(RuntimeError, match="split minibatches"):
        loader.dataset.set_epoch(0)
    given = make_dataset(num_data_partitions=2, partition_index=1)
    assert sum(map(len, sh.torch.DataLoader(given, num_workers=num_workers))) == ROWS // 2


@pytest.mark.parametrize("world", ["", "1", "two"])
def test_one_process_needs_no_group(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)
    dataset = make_dataset()
    dataset.set_epoch(3)
    rows = [row for item in sh.torch.DataLoader(dataset) for row in item]
    assert sorted(rows) == list(range(ROWS))


def test_a_copy_of_a_dataset_finds_its_own_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = pickle.loads(pickle.dumps(make_dataset()))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="WORLD_SIZE is 2"):
        next(iter(copy))
