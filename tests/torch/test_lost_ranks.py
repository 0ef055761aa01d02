"""A rank of four that is lost is named by all others, and no rank that lives."""

import pytest
from tests import extent
from tests.torch.launch import Ended, launch

# Rank 0 has the store.
LOST = [("killed", 2), ("stopped", 0)]
LOST += [("killed", 0), ("stopped", 2)] if extent.exhaustive else []


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Ended]]:
    """Run all that four ranks do, from one import of torch."""
    names = [*(f"{how}_{lost}" for how, lost in LOST), "raises_0"]
    return launch(4, names, tmp_path_factory.mktemp("lost"), "tests.torch.lost_ranks")


@pytest.mark.parametrize(("how", "lost"), LOST)
def test_the_others_name_the_rank_that_is_lost(
    stories: dict[str, list[Ended]], how: str, lost: int
) -> None:
    found = {rank: one.found for rank, one in enumerate(stories[f"{how}_{lost}"])}
    assert found.pop(lost) is None
    for kind, said, ranks in found.values():
        assert (kind, ranks) == ("WorkerError", [lost]), said
        why = "has left" if how == "killed" else "did not answer within 3 s"
        assert said.startswith(f"rank {lost} of 4 {why}")


def test_the_error_of_the_rank_with_the_store_is_known_to_all(
    stories: dict[str, list[Ended]],
) -> None:
    told = [one.found for one in stories["raises_0"]]
    assert told[0] == ["ValueError", "a shape is wrong"]
    assert told[1:] == [["ValueError", "on rank 0: a shape is wrong"]] * 3
