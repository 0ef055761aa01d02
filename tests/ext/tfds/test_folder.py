import json
from pathlib import Path

import pytest

from sweephand import DataError
from sweephand.ext.tfds import FileInstruction, ReadConfig, builder_info
from sweephand.ext.tfds.read_order import ExampleIds, ReadOrder, name_files

INFO = {
    "name": "demo",
    "version": "1.0.0",
    "splits": [
        {"name": "s", "shardLengths": ["4", "0", "7", "3"]},
        {
            "name": "test",
            "shardLengths": ["10"],
            "filepathTemplate": "{DATASET}-{SPLIT}-{SHARD_INDEX}_{NUM_SHARDS}.{FILEFORMAT}",
        },
    ],
}


def make_folder(folder: Path, info: object = INFO) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset_info.json").write_text(json.dumps(info))
    (folder / "features.json").write_text('{"pythonClassName": "x"}')
    return folder


def rows(*lengths: int) -> list[FileInstruction]:
    return [FileInstruction(f"/data/f{i}", 0, take, take) for i, take in enumerate(lengths)]


def test_a_folder_says_what_it_holds(tmp_path: Path) -> None:
    info = builder_info(make_folder(tmp_path))
    assert (info.name, info.version) == ("demo", "1.0.0")
    assert info.file_format == "tfrecord"
    assert not info.is_ordered
    assert info.features == {"pythonClassName": "x"}
    assert list(info.splits) == ["s", "test"]
    assert info.splits["s"].num_examples == 14
    assert [path.name for path in info.splits.stored["s"].files] == [
        f"demo-s.tfrecord-0000{shard}-of-00004" for shard in range(4)
    ]
    assert info.splits.stored["test"].files[0].name == "demo-test-00000_00001.tfrecord"


def test_numbers_of_shards_have_as_many_digits_as_their_count(tmp_path: Path) -> None:
    lengths = ["1"] * 100_001
    info = {"name": "demo", "splits": [{"name": "train", "shardLengths": lengths}]}
    files = builder_info(make_folder(tmp_path, info)).splits.stored["train"].files
    assert files[3].name == "demo-train.tfrecord-000003-of-100001"


def test_a_note_behind_a_percent_sign_is_no_part_of_the_name(tmp_path: Path) -> None:
    make_folder(tmp_path)
    noted = tmp_path / "demo-s.tfrecord-00000-of-00004%gzip"
    noted.touch()
    assert builder_info(tmp_path).splits.stored["s"].files[0] == noted


def test_folders_of_other_data_sets_are_refused(tmp_path: Path) -> None:
    folders = [make_folder(tmp_path / name, {**INFO, "name": name}) for name in ("a", "b")]
    with pytest.raises(ValueError, match="name differs"):
        builder_info(folders)
    with pytest.raises(ValueError, match="at least one folder"):
        builder_info([])


@pytest.mark.parametrize(
    "change",
    [
        "{",
        "[" * 100_000,
        [],
        {"splits": {}},
        {"splits": [{"name": "s", "shardLengths": ["-1"]}]},
        {"splits": [{"name": "s", "shardLengths": ["9223372036854775808"]}]},
        {"splits": [{"name": "s", "shardLengths": [1.5]}]},
        {"splits": [{"name": "s", "shardLengths": [True]}]},
        {"splits": [{"name": "s"}, {"name": "s"}]},
        {"splits": [{"name": "s", "shardLengths": ["1"], "filepathTemplate": "../x"}]},
        {"splits": [{"name": "s", "shardLengths": ["1", "1"], "filepathTemplate": "x"}]},
        {"name": 5},
    ],
)
def test_a_damaged_folder_names_the_file(tmp_path: Path, change: object) -> None:
    make_folder(tmp_path, change)
    if isinstance(change, str):
        (tmp_path / "dataset_info.json").write_text(change)
    with pytest.raises(DataError) as caught:
        builder_info(tmp_path)
    assert caught.value.file == str(tmp_path / "dataset_info.json")


# -- the order --


def test_a_written_order_is_guarded() -> None:
    order = ReadOrder(rows(3, 20), ReadConfig(), is_ordered=True)
    assert order.take(0, 23)[0].tolist() == [0] * 3 + [1] * 20
    with pytest.raises(ValueError, match="keeps its written order"):
        ReadOrder(rows(3), ReadConfig(interleave_cycle_length=2), is_ordered=True)
    unguarded = ReadConfig(enable_ordering_guard=False, shuffle_seed=1)
    with pytest.warns(UserWarning, match="keeps its written order"):
        ReadOrder(rows(3), unguarded, shuffle_files=True, is_ordered=True)


# -- ids --


def test_an_example_may_be_selected_twice() -> None:
    once = [FileInstruction("/a/f", 0, 5, 9), FileInstruction("/a/f", 5, 2, 9)]
    twice = [*once, FileInstruction("/a/f", 4, 1, 9)]
    assert not ExampleIds(once).repeat()
    assert ExampleIds(twice).repeat()
    assert list(ExampleIds(twice).find("f__4")) == [(0, 4), (2, 0)]


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["/a/b/f", "/a/b/g"], ["f", "g"]),
        (["/a/b/f", "/x/y/f"], ["b/f", "y/f"]),
        (["/d/v1/1.0.0/f", "/d/v2/1.0.0/f"], ["v1/1.0.0/f", "v2/1.0.0/f"]),
        (["/d/f", "/d/e/f"], ["d/f", "e/f"]),
        (["f"], ["f"]),
    ],
)
def test_files_of_several_folders_are_told_apart(files: list[str], names: list[str]) -> None:
    assert name_files(files) == names
