"""A folder is served in TFDS' own order, from any position, or in ours."""

from __future__ import annotations

import os
import pickle
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.tfds.folders import NUMBERED, numbered, tensor, tree, write_folder

import sweephand as sh
from sweephand.ext.tfds import ReadConfig

TWO = ReadConfig(interleave_cycle_length=2, interleave_block_length=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The worked example: a split of 14 examples in four shards, one of them empty."""
    return write_folder(
        tmp_path / "demo" / "1.0.0", {"s": numbered(4, 0, 7, 3), "t": numbered(5)}, NUMBERED
    )


def values(source: sh.MinibatchSource, size: int = 3) -> list[int]:
    return [n for batch in source.minibatches(size) for n in batch["x"].values.tolist()]


def serve(dataset: sh.tfds.Dataset, sweeps: int = 1, **options: Any) -> sh.MinibatchSource:
    return sh.MinibatchSource(dataset, randomize=False, max_sweeps=sweeps, **options)


# -- order --
ORDER = [0, 1, 200, 201, 2, 3, 202, 203, 204, 205, 300, 301, 206, 302]


def test_ids_are_those_of_tfds(folder: Path) -> None:
    dataset = sh.tfds.load(folder, "s[3:]", read_config=TWO)
    source = serve(dataset)
    ids = [name for batch in source.minibatches(5) for name in batch.ids]
    assert ids == dataset.ids(0, 11) == source.sequence_ids(0, 11)
    assert ids[:4] == [
        "demo-s.tfrecord-00000-of-00004__3",
        "demo-s.tfrecord-00002-of-00004__0",
        "demo-s.tfrecord-00002-of-00004__1",
        "demo-s.tfrecord-00003-of-00004__0",
    ]
    assert [dataset.find(name) for name in ids] == list(range(11))
    assert [source.find(name, sweep=1) for name in ids] == list(range(11, 22))
    with pytest.raises(KeyError):
        source.find("demo-s.tfrecord-00000-of-00004__2")


def test_a_seed_that_was_drawn_is_told_and_repeats_the_order(folder: Path) -> None:
    drawn = sh.tfds.load(folder, "s", True)
    again = sh.tfds.load(folder, "s", True, ReadConfig(shuffle_seed=drawn.shuffle_seed))
    assert values(serve(drawn, 3)) == values(serve(again, 3))


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_state_goes_on_at_any_example(folder: Path, shuffle: bool) -> None:
    config = ReadConfig(
        interleave_cycle_length=2,
        interleave_block_length=2,
        shuffle_seed=1 if shuffle else None,
    )

    def load() -> sh.MinibatchSource:
        return serve(sh.tfds.load(folder, "s", shuffle, config), 3)

    whole = values(load(), 1)
    for position in range(0, 42, 5):
        source = load()
        source.current_position = position
        state = source.get_checkpoint_state()
        again = load()
        again.restore_from_checkpoint(state)
        assert values(again, 4) == whole[position:]
    with pytest.raises(sh.StateError):
        serve(sh.tfds.load(folder, "s"), 3).restore_from_checkpoint(state)


def test_our_timeline_runs_over_the_same_examples(folder: Path) -> None:
    dataset = pickle.loads(pickle.dumps(sh.tfds.load(folder, "s+t[:2]")))
    source = sh.MinibatchSource(dataset, num_lanes=4, max_sweeps=2, randomization_seed=5)
    found = values(source)
    assert sorted(found[:16]) == sorted(found[16:]) == sorted([*ORDER, 0, 1])
    assert found[:16] != found[16:]
    state = sh.MinibatchSource(dataset, num_lanes=4).get_checkpoint_state()
    sh.MinibatchSource(sh.tfds.load(folder, "s+t[:2]"), num_lanes=4).load_state_dict(state)


def test_only_what_is_delivered_is_read(tmp_path: Path) -> None:
    shards = [[{"x": n, "image": bytes(10_000)} for n in range(50)] for _ in range(8)]
    features = tree(x=tensor("int64"), image={"image": {}})
    folder = write_folder(tmp_path, {"s": shards}, features)
    serve(sh.tfds.load(folder, "s"))  # builds the index
    for path in folder.glob("demo-s*-of-00008"):
        times = path.stat()
        content = bytearray(path.read_bytes())
        content[5000:-12_000] = bytes(len(content) - 17_000)  # all but the last example
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    source = serve(sh.tfds.load(folder, "s", read_config=ReadConfig(interleave_block_length=1)))
    source.current_position = 8 * 49
    assert values(source, 8) == [49] * 8


def test_a_selection_may_be_a_tree(folder: Path) -> None:
    found: Any = sh.tfds.load(folder, {"a": ["s[:50%]", "t"], "b": "all"})
    assert [len(one) for one in [*found["a"], found["b"]]] == [7, 5, 19]
    assert {name: len(one) for name, one in sh.tfds.load(folder).items()} == {"s": 14, "t": 5}


def test_several_folders_are_one_data_set(tmp_path: Path) -> None:
    dirs = [
        write_folder(tmp_path / part / "1.0.0", {"s": numbered(2, 3)}, NUMBERED)
        for part in ("b", "a")
    ]
    dataset = sh.tfds.load(dirs, "s", read_config=ReadConfig(interleave_cycle_length=1))
    assert values(serve(dataset)) == [0, 1, 100, 101, 102] * 2
    assert dataset.ids(4, 6) == [
        "b/1.0.0/demo-s.tfrecord-00001-of-00002__2",
        "a/1.0.0/demo-s.tfrecord-00000-of-00002__0",
    ]


def test_the_id_can_be_a_stream(folder: Path) -> None:
    dataset = sh.tfds.load(folder, "t", read_config=ReadConfig(add_tfds_id=True))
    batch = serve(dataset).next_minibatch(5)
    assert [one.decode() for one in batch["tfds_id"].values] == batch.ids


# -- features --


def test_streams_can_be_chosen_renamed_and_cast(tmp_path: Path) -> None:
    features = tree(a=tensor("int64"), b=tensor("complex64"))
    folder = write_folder(tmp_path, {"s": [[{"a": 5, "b": 1.0}]]}, features)
    with pytest.raises(ValueError, match="the feature 'b' has the dtype 'complex64', which is"):
        sh.tfds.load(folder, "s")
    streams = sh.StreamDefs(number=sh.StreamDef(field="a", dtype="uint8"))
    batch = serve(sh.tfds.load(folder, "s", streams=streams)).next_minibatch(1)
    assert batch["number"].values.dtype == np.uint8
    for wrong, reason in [
        (sh.StreamDefs(c=sh.StreamDef()), "no feature 'c', there are: a, b"),
        (sh.StreamDefs(a=sh.StreamDef(defines_mb_size=True)), "cannot define the size"),
    ]:
        with pytest.raises(ValueError, match=reason):
            sh.tfds.load(folder, "s", streams=wrong)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_folder_without_features_is_read_as_declared(tmp_path: Path, is_old: bool) -> None:
    # None, or one that TFDS wrote before 2021.
    old = {"type": "features_dict.FeaturesDict", "content": {}} if is_old else None
    folder = write_folder(tmp_path, {"s": [[{"x": [1, 2], "y": 0.5, "z": "t"}]]}, old)
    with pytest.raises(ValueError, match=r"has no features\.json of today's form; declare"):
        sh.tfds.load(folder, "s")
    streams = sh.StreamDefs(
        x=sh.StreamDef(dtype="int32"),
        y=sh.StreamDef(dtype="float32", shape=()),
        z=sh.StreamDef(),
    )
    batch = serve(sh.tfds.load(folder, "s", streams=streams)).next_minibatch(1)
    assert batch["x"].values.tolist() == [1, 2]
    assert batch["y"].values.tolist() == [0.5]
    assert batch["z"].values.tolist() == [b"t"]


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"featuresDict": {"features": {"x": 5}}}',
        '{"tensor": {"shape": {"dimensions": ["-2"]}}}',
        # Python's limit, which others may have raised, says how deep is too deep.
        '{"sequence": {"feature": ' * 600 + "{}" + "}}" * 600,
        '{"a": 1',
        "{}",
        '{"featuresDict": {"features": {"x": {}}}}',
        '{"featuresDict": {"features": {"x": {"tensor": {}}}}}',
    ],
)
def test_damaged_features_are_an_error_with_the_file(folder: Path, content: str) -> None:
    (folder / "features.json").write_text(content)
    with pytest.raises(sh.DataError) as caught:
        sh.tfds.load(folder, "s")
    assert caught.value.file == str(folder / "features.json")


# -- what is wrong --
def test_an_absent_or_different_shard_is_named(folder: Path) -> None:
    shard = folder / "demo-s.tfrecord-00002-of-00004"
    content = shard.read_bytes()
    dataset = sh.tfds.load(folder, "s")
    sh.tfrecord.write(shard, [{"x": 1}] * 6)
    with pytest.raises(sh.DataError, match=r"has 6 examples, .* says 7") as caught:
        serve(dataset)
    assert caught.value.file == str(shard)
    shard.write_bytes(content[:-3])
    with pytest.raises(sh.DataError, match="but the file ends after") as caught:
        serve(dataset)
    assert (caught.value.file, caught.value.sequence) == (str(shard), 6)
    shard.unlink()
    with pytest.raises(FileNotFoundError, match="00002-of-00004"):
        serve(dataset)


def test_a_damaged_example_is_skipped_in_the_budget_and_keeps_its_place(folder: Path) -> None:
    shard = folder / "demo-s.tfrecord-00002-of-00004"
    content = bytearray(shard.read_bytes())
    record = len(content) // 7
    content[2 * record + 14] ^= 1
    shard.write_bytes(content)
    dataset = sh.tfds.load(folder, "s", read_config=TWO)
    with pytest.raises(sh.DataError, match="checksum") as caught:
        values(serve(dataset))
    assert (caught.value.file, caught.value.offset, caught.value.sequence) == (
        str(shard),
        2 * record,
        2,
    )
    source = serve(dataset, max_errors=1)
    assert values(source) == [n for n in ORDER if n != 202]
    assert [error.sequence for error in source.errors] == [2]


PAIR = np.zeros(2, np.int16).tobytes()
ZIPPED = tensor("int16", 2, encoding="zlib")


@pytest.mark.parametrize(
    ("feature", "good", "bad"),
    [
        (tensor("int64", 3), [1, 2, 3], [1, 2]),
        (tensor("int64"), 1, []),
        (tensor("int64"), 1, 1.5),
        (tensor("uint8"), 1, 256),
        (tensor("int16", 2, encoding="bytes"), PAIR, b"abc"),
        (ZIPPED, zlib.compress(PAIR), b"abc"),
        (ZIPPED, zlib.compress(PAIR), zlib.compress(bytes(1 << 20))),
    ],
)
def test_an_example_that_its_features_do_not_describe_is_an_error(
    tmp_path: Path, feature: Any, good: Any, bad: Any
) -> None:
    write_folder(tmp_path, {"s": [[{"x": good}, {"x": bad}]]}, tree(x=feature))
    source = serve(sh.tfds.load(tmp_path, "s"))
    with pytest.raises(sh.DataError) as caught:
        source.next_minibatch(2)
    assert caught.value.stream == "x"
    assert caught.value.sequence in (1, "demo-s.tfrecord-00000-of-00001__1")
    assert len(source.next_minibatch(1)["x"].values) == 1


def test_what_cannot_be_served_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ValueError, match="selects an example twice"):
        serve(sh.tfds.load(folder, "s+s[:3]"))
    with pytest.raises(ValueError, match="selects no examples"):
        sh.tfds.load(folder, "s[:0]")
    other = write_folder(tmp_path / "riegeli", {"s": []}, NUMBERED, fileFormat="riegeli")
    with pytest.raises(ValueError, match="holds riegeli files"):
        sh.tfds.load(other, "s")


# -- splits without files, and types that are no names --
@pytest.fixture
def sparse_folder(tmp_path: Path) -> Path:
    """A split, one without a shard, one of an empty shard, and one with such a shard."""
    splits = {"s": numbered(3, 2), "none": [], "empty": [[]], "part": [[], [{"x": 7}]]}
    return write_folder(tmp_path / "sparse", splits, NUMBERED)


@pytest.mark.parametrize(
    ("split", "wanted"),
    [
        ("s+none", [0, 1, 2, 100, 101]),
        ("none+s", [0, 1, 2, 100, 101]),
        ("s+empty", [0, 1, 2, 100, 101]),
        ("part", [7]),
        ("all", [0, 1, 2, 100, 101, 7]),
        ("none+part[:50%]+s[-1:]", [101]),
    ],
)
@pytest.mark.parametrize("randomize", [False, True])
def test_a_split_without_files_adds_nothing(
    sparse_folder: Path, split: str, wanted: list[int], randomize: bool
) -> None:
    dataset = sh.tfds.load(
        sparse_folder, split, read_config=ReadConfig(interleave_block_length=9)
    )
    source = sh.MinibatchSource(dataset, randomize=randomize, max_sweeps=1)
    assert sorted(values(source)) == sorted(wanted)
    assert len(dataset) == len(wanted)
    assert sh.tfds.builder_info(sparse_folder).splits[split].num_examples == len(wanted)


@pytest.mark.parametrize("encoding", ["none", "bytes"])
@pytest.mark.parametrize("dtype", [">i8", "<i8", "=i8", "|u1", "i8", "long", ">f4", ">u2"])
def test_a_dtype_that_no_writer_names_is_refused(
    tmp_path: Path, dtype: str, encoding: str
) -> None:
    value: Any = 1 if encoding == "none" else bytes(8)
    features = tree(x=tensor(dtype, encoding=encoding), y=tensor("int64"))
    write_folder(tmp_path, {"s": [[{"x": value, "y": 5}]]}, features)
    with pytest.raises(ValueError, match=f"'x' has the dtype '{re.escape(dtype)}'"):
        sh.tfds.load(tmp_path, "s")
    only = sh.tfds.load(tmp_path, "s", streams=sh.StreamDefs(x=sh.StreamDef(field="y")))
    assert values(serve(only)) == [5]
