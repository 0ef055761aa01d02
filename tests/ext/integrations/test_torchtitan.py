"""Two ranks of torchtitan's trainer get what one gets, and others go on from their state."""

import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch.distributed.checkpoint as dcp
from tests.torch.drop_ins import ROW, SAVED_AT, STEPS, build, make_source, rows_of
from tests.torch.launch import launch

from sweephand.ext.integrations.torchtitan import DataLoader


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("titan")


@pytest.fixture(scope="module")
def two(folder: Path) -> list[dict[str, Any]]:
    ranks = launch(2, ["titan"], folder, "tests.torch.drop_ins")["titan"]
    assert [rank.code for rank in ranks] == [0, 0]
    return [rank.found for rank in ranks]


def items(loader: Any, count: int) -> list[Any]:
    return [rows_of(item) for _, item in zip(range(count), loader, strict=False)]


def test_two_ranks_get_the_rows_of_one_process(two: list[dict[str, Any]]) -> None:
    for one, other, whole in zip(
        *(rank["items"] for rank in two), items(build(1, 0, 8), STEPS), strict=True
    ):
        assert sorted(one + other) == sorted(whole)
        assert len(one) == len(other) == 4


def test_labels_are_the_next_tokens_of_the_same_sequence() -> None:
    source = make_source()
    inputs, labels = next(iter(DataLoader(
        source, dp_world_size=1, dp_rank=0, seq_len=ROW, local_batch_size=8
    )))  # fmt: skip
    minibatch = make_source().next_minibatch(8 * ROW)
    assert inputs["input"].tolist() == minibatch["tokens"].asarray().tolist()
    assert labels.tolist() == minibatch["tokens"].labels().tolist()
    is_filled = minibatch.segment_ids > 0
    assert (inputs["positions"].numpy() == minibatch.position_ids)[is_filled].all()
    assert {str(tensor.dtype) for tensor in (*inputs.values(), labels)} == {"torch.int64"}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
@pytest.mark.parametrize(("ranks", "rows"), [(1, 8), (4, 2)])
def test_a_state_of_two_ranks_goes_on_with_other_numbers(
    two: list[dict[str, Any]], folder: Path, ranks: int, rows: int
) -> None:
    loaders = [build(ranks, rank, rows) for rank in range(ranks)]
    for loader in loaders:
        dcp.load({"dataloader": loader}, checkpoint_id=folder / "titan", no_dist=True)
    found = zip(*(items(loader, STEPS - SAVED_AT) for loader in loaders), strict=True)
    for step, shares in enumerate(found, SAVED_AT):
        wanted = two[0]["items"][step] + two[1]["items"][step]
        assert sorted(row for share in shares for row in share) == sorted(wanted)
    assert two[0]["state"] == two[1]["state"] == loaders[0].state_dict()
    assert len(json.dumps(two[0]["state"])) < 1000


def test_finite_data_end_after_as_many_items_of_one_shape(two: list[dict[str, Any]]) -> None:
    one, other = (rank["finite"] for rank in two)
    assert len(one) == len(other)
    assert {len(item) for item in one + other} == {3}
    tokens = [token for item in one + other for row in item for token in row[0] if token]
    assert len(tokens) == make_source().num_samples_per_sweep


def test_later_versions_get_rows_behind_each_other() -> None:
    loader = DataLoader(
        make_source(), dp_world_size=2, dp_rank=1, tokenizer=None,
        max_context_length=2 * ROW, num_tokens_per_batch=4 * ROW,
    )  # fmt: skip
    inputs, labels = next(iter(loader))
    rows = items(build(2, 1, 4), 1)[0]
    flat = [list(chain(*parts)) for parts in zip(*rows, strict=True)]
    assert flat == [inputs["input"].tolist(), inputs["positions"].tolist(), labels.tolist()]
    loader.close()


def test_worker_processes_deliver_the_same() -> None:
    whole = items(build(2, 0, 4), 4)
    assert items(build(2, 0, 4, num_workers=2), 4) == whole


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"seq_len": ROW}, "give seq_len and local_batch_size, or max_context_length and"),
        ({"seq_len": 2 * ROW, "local_batch_size": 1}, "layout=sh.Packed(32)"),
        (
            {"max_context_length": ROW, "num_tokens_per_batch": ROW + 1},
            "a multiple of the row length 16, got 17",
        ),
        ({"seq_len": ROW, "local_batch_size": 1, "stream": "text"}, "no stream 'text'"),
        ({"seq_len": ROW, "local_batch_size": 1, "shuffle": True}, "shuffl"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(reason)):
        DataLoader(make_source(), dp_world_size=1, dp_rank=0, **options)
