"""What is wrong on one of two ranks, or between them, is an error on both, and soon."""

from typing import Any

import pytest
from tests.torch.launch import Ended, launch
from tests.torch.ranks import IN_TIME, make_source
from tests.torch.trained import SIZES

pytest.importorskip("pyarrow", reason="the ranks read Parquet")
STORIES = ["alike", "cannot_open", "torn"]


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Ended]]:
    """Run all that two ranks do, from one import of torch."""
    return launch(2, STORIES, tmp_path_factory.mktemp("faults"), "tests.torch.faults")


def found(ranks: list[Ended]) -> list[Any]:
    assert [rank.code for rank in ranks] == [0, 0]
    return [rank.found for rank in ranks]


def test_balances_by_attention_are_compared(stories: dict[str, list[Ended]]) -> None:
    for rank in found(stories["alike"]):
        assert rank["equal"] == rank["by name"] == ["nothing", ""]
        assert rank["apart"] == [
            "ValueError",
            "the sources of the ranks differ: rank 1: balance is Attention(equal_at=24001) "
            "there and Attention(equal_at=24000) on rank 0",
        ]


def test_a_mesh_that_does_not_fit_says_so_on_both(stories: dict[str, list[Ended]]) -> None:
    for rank in found(stories["alike"]):
        assert "the ranks do not share the data" in rank["coordinates"][1]
        assert "(1, 0) on rank 0, (2, 1) on rank 1" in rank["coordinates"][1]
        assert "dimensions ['rows'] of which it is not known" in rank["names"][1]
        assert rank["no group"][0] == "TypeError"


def test_what_cannot_be_opened_on_one_rank_ends_the_wait_of_the_other(
    stories: dict[str, list[Ended]],
) -> None:
    waits, fails = stories["cannot_open"]
    assert (waits.code, fails.code) == (0, 1)
    kind, said = waits.found["told"]
    assert kind == "FileNotFoundError"
    assert "on rank 1: there is no file" in said
    assert waits.found["seconds"] < IN_TIME


def test_a_checkpoint_that_lacks_a_ranks_part_is_refused_on_both(
    stories: dict[str, list[Ended]],
) -> None:
    alone = make_source(randomization_seed=2)
    alone.next_minibatch(SIZES[0])
    for rank in found(stories["torn"]):
        said, failed = rank["told"]
        assert "No such file" in said
        assert "__1_0.distcp" in said
        assert failed == [0, 1]
        assert rank["untouched"] == 0
        assert rank["gone on"], "a whole one is loaded afterwards"
