"""Orders and splits are those that were recorded of the real TFDS."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.ext.tfds.recordings import FOLDER, recorded

import sweephand as sh

EXAMPLES = recorded("examples")
SPLITS = recorded("splits")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, beside which an index may be written."""
    return Path(shutil.copytree(FOLDER / "numbers", tmp_path_factory.mktemp("tfds") / "1.0.0"))


def spell(case: dict[str, Any]) -> str:
    return " ".join(str(value) for key, value in case.items() if key in _SPELLED)


_SPELLED = ("split", "spec", "cycle", "block", "seed", "reshuffle", "sort", "context", "count")


@pytest.mark.parametrize("case", recorded("orders"), ids=spell)
def test_passes_are_those_of_tfds(folder: Path, case: dict[str, Any]) -> None:
    readers, reader = case.get("context") or (1, 0)

    def sort(rows: list[sh.tfds.FileInstruction]) -> list[sh.tfds.FileInstruction]:
        own = rows[::-1][1:] if case.get("sort") else rows
        return own[reader::readers]

    config = sh.tfds.ReadConfig(
        interleave_cycle_length=case["cycle"],
        interleave_block_length=case["block"],
        shuffle_seed=case["seed"],
        shuffle_reshuffle_each_iteration=case["reshuffle"],
        interleave_sort_fn=sort,
    )
    dataset = sh.tfds.load(folder, case["split"], case["seed"] is not None, config)
    with sh.MinibatchSource(dataset, randomize=False, max_sweeps=len(case["passes"])) as source:
        for number, wanted in enumerate(case["passes"]):
            ids = [EXAMPLES[one]["id"] for one in wanted]
            assert dataset.ids(0, len(dataset), number=number) == ids
            batch = source.next_minibatch(len(dataset))
            assert batch.ids == ids
            assert batch["x"].values.tolist() == [EXAMPLES[one]["x"] for one in wanted]
        assert not source.next_minibatch(1)


# Where TFDS answers what was hardly meant, ours is an error.
TRAPS = {
    "train[5:2]",
    "train[9:6]",
    "train[6:5]",
    "train[10%:50]",
    "train[1%:2shard]",
    "train[1shard:2]",
    "train[:0shard]",
    "train[99shard]",
}


def rows_of(folder: Path, split: sh.tfds.Split | str) -> list[list[Any]]:
    rows = sh.tfds.builder_info(folder).splits[split].file_instructions
    return [
        [Path(row.filename).name, row.skip, row.take, row.examples_in_shard] for row in rows
    ]


@pytest.mark.filterwarnings("ignore:.* rounds to 0")
@pytest.mark.parametrize("case", [one for one in SPLITS if "rows" in one], ids=spell)
def test_splits_select_what_tfds_selects(folder: Path, case: dict[str, Any]) -> None:
    if case["spec"] in TRAPS or isinstance(case["rows"], str):
        with pytest.raises(ValueError, match=r"split|train|100 %"):
            rows_of(folder, case["spec"])
    else:
        assert rows_of(folder, case["spec"]) == case["rows"]


@pytest.mark.parametrize("case", [one for one in SPLITS if "parts" in one], ids=spell)
def test_even_splits_are_those_of_tfds(folder: Path, case: dict[str, Any]) -> None:
    parts = sh.tfds.even_splits(case["spec"], case["count"], case["drop"])
    assert [rows_of(folder, part) for part in parts] == case["parts"]


@pytest.mark.filterwarnings("ignore:.* rounds to 0")
@pytest.mark.parametrize("case", recorded("roundings"), ids=lambda case: case["rounding"])
def test_percentages_are_rounded_as_tfds_does(case: dict[str, Any]) -> None:
    for percent, begin in case["begins"]:
        split = sh.tfds.ReadInstruction("s", percent, unit="%", rounding=case["rounding"])
        assert split.resolve({"s": [case["examples"]]})[0].begin == begin
