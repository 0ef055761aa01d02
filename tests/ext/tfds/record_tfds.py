"""Record what TFDS and TensorFlow do: `python -m tests.ext.tfds.record_tfds`, by hand and once.

It writes small prepared folders, TFRecord files, and what TFDS reads of them, into
`tests/golden/tfds`; tests compare ours with that. A recording is a promise, so this refuses to
touch one that exists: `RECORDINGS` of a later TFDS are compared with it by hand. It needs
`tensorflow-cpu`, `tensorflow-datasets` and `importlib_resources`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from tests.ext.tfds.feature_kinds import KINDS

FOLDER = Path(__file__).parents[2] / "golden" / "tfds"

Case = dict[str, Any]


def main() -> None:
    FOLDER.mkdir(parents=True)
    numbers = [{"x": n} for n in range(53)]
    prepare("numbers", {"x": np.int64}, {"train": numbers, "test": numbers[:9]}, num_shards=6)
    prepare("kinds", {name: kind for name, (kind, _) in KINDS.items()}, {"train": kinds()})
    write_records(FOLDER)
    write("versions", [{"tensorflow": tf.__version__, "tensorflow_datasets": tfds.__version__}])
    for name, record in RECORDINGS.items():
        write(name, record())


def write(name: str, cases: Iterable[Case]) -> None:
    """One line for each case, so that a difference can be read."""
    lines = ",\n".join(json.dumps(case) for case in cases)
    with (FOLDER / f"{name}.json").open("x") as file:
        file.write(f"[\n{lines}\n]\n")


# -- prepared folders --
def prepare(
    name: str, kinds: Any, examples: dict[str, list[Case]], num_shards: int = 1
) -> None:
    """Let TFDS write a folder, and keep what reading needs."""

    class Written(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")
        pkg_dir_path = Path(__file__).parent

        def _info(self) -> Any:
            return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(kinds))

        def _split_generators(self, dl_manager: Any) -> Any:
            return {split: enumerate(rows) for split, rows in examples.items()}

        def _generate_examples(self) -> Any:
            raise NotImplementedError

    Written.name = name
    with tempfile.TemporaryDirectory() as folder:
        builder = Written(data_dir=folder)
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(
                num_shards=num_shards, try_download_gcs=False
            )
        )
        shutil.copytree(builder.data_dir, FOLDER / name)


def open_folder(name: str) -> Any:
    return tfds.builder_from_directory(FOLDER / name)


# -- orders --
def examples() -> list[Case]:
    """Return all examples in storage order; orders are numbers of these."""
    config = tfds.ReadConfig(interleave_cycle_length=1, add_tfds_id=True)
    dataset = open_folder("numbers").as_dataset(split="train+test", read_config=config)
    return [
        {"id": one["tfds_id"].decode(), "x": int(one["x"])}
        for one in dataset.as_numpy_iterator()
    ]


SPLITS = ("train", "train[7:-9]", "train[2shard:]+test[:30%]")
CYCLES = ((16, 16), (1, 1), (3, 4), (2, 9), (7, 1))
SEEDS = ((None, True), (0, True), (7, True), (2**31 - 1, True), (7, False))


def orders() -> list[Case]:
    cases = [
        {"split": split, "cycle": cycle, "block": block, "seed": seed, "reshuffle": reshuffle}
        for split, (cycle, block), (seed, reshuffle) in product(SPLITS, CYCLES, SEEDS)
    ]
    for seed in (None, 3):
        plain = {"split": "train", "cycle": 3, "block": 2, "seed": seed, "reshuffle": True}
        cases += [
            {**plain, "sort": True},
            {**plain, "context": [2, 0]},
            {**plain, "context": [2, 1]},
            {**plain, "sort": True, "context": [4, 3]},
        ]
    numbers = {one["id"]: number for number, one in enumerate(examples())}
    return [
        {**case, "passes": [[numbers[one] for one in ids] for ids in passes(**case)]}
        for case in cases
    ]


def passes(
    split: str,
    cycle: int,
    block: int,
    seed: int | None,
    reshuffle: bool,
    sort: bool = False,
    context: tuple[int, int] | None = None,
) -> list[list[str]]:
    """Return the ids of the examples in the passes over one dataset object."""
    config = tfds.ReadConfig(
        interleave_cycle_length=cycle,
        interleave_block_length=block,
        shuffle_seed=seed,
        shuffle_reshuffle_each_iteration=reshuffle,
        experimental_interleave_sort_fn=(lambda rows: rows[::-1][1:]) if sort else None,
        input_context=tf.distribute.InputContext(*context) if context else None,
        add_tfds_id=True,
        try_autocache=False,
    )
    shuffle = seed is not None
    dataset = open_folder("numbers").as_dataset(
        split=split, shuffle_files=shuffle, read_config=config
    )
    count = 2 if shuffle else 1
    return [
        [one["tfds_id"].decode() for one in dataset.as_numpy_iterator()] for _ in range(count)
    ]


# -- splits --
SPECS = [
    "train",
    "train[3:9]",
    "train[-5:]",
    "train[:-5]",
    "train[1_0:]",
    "train[53:]",
    "train[:50%]",
    "train[25%:75%]",
    "train[10%:]",
    "train[-10%:]",
    "train[:37.5%]",
    "train[1shard:3shard]",
    "train[2shard]",
    "train[-1shard]",
    "train[0shard]",
    "train[:-1shard]",
    "train[-99shard:2shard]",
    "train[3shard:]",
    "train[-2shard:]",
    "all",
    "train+test",
    "test[2:5]+train[:10%]+test",
    "train[5:5]",
    "train[:0]",
    "train[100%:]",
    "train[-100%:]",
    "train[:-0.4%]",
    "train[60:]",
    "train[:-60]",
    "train[101%:]",
    "train[:]",
    "train[]",
    "train[5]",
    "train[5%]",
    "train[::]",
    "train[1.5:]",
    "train[1.5shard:]",
    "other",
    "all[:5]",
    "train[5:2]",
    "train[9:6]",
    "train[6:5]",
    "train[10%:50]",
    "train[1%:2shard]",
    "train[1shard:2]",
    "train[:0shard]",
    "train[99shard]",
    "train+",
    "+train",
]


def rows_of(split: Any) -> list[list[Any]] | str:
    """Return the file instructions of a split; for one that TFDS refuses, its error."""
    try:
        found = open_folder("numbers").info.splits[split].file_instructions
    except Exception as error:
        return type(error).__name__
    return [
        [Path(row.filename).name, row.skip, row.take, row.examples_in_shard] for row in found
    ]


def splits() -> list[Case]:
    cases: list[Case] = [{"spec": spec, "rows": rows_of(spec)} for spec in SPECS]
    for spec, count, drop in product(("train[5:-6]", "train+test[1:]"), (4, 7), (False, True)):
        parts = [rows_of(part) for part in tfds.even_splits(spec, count, drop_remainder=drop)]
        cases.append({"spec": spec, "count": count, "drop": drop, "parts": parts})
    return cases


PERCENTS = (0, 0.4, 1, 12.5, 33, 37.5, 50, 66.6, 75, 99, 99.5, 100, -0.4, -1, -10, -33.3, -50)


def roundings() -> list[Case]:
    """Return the first example of slices by percent, for splits of several sizes."""
    cases = []
    for rounding, count in product(
        ("closest", "pct1_dropremainder"), (1, 4, 5, 7, 14, 15, 99, 100, 150, 999, 1_000_003)
    ):
        infos = {"s": tfds.core.SplitInfo(name="s", shard_lengths=[count], num_bytes=0)}
        whole = rounding == "pct1_dropremainder"
        begins = []
        for percent in PERCENTS:
            if whole and (count < 100 or percent != int(percent)):
                continue
            slice_ = tfds.core.ReadInstruction("s", percent, unit="%", rounding=rounding)
            begins.append([percent, slice_.to_absolute(infos)[0].from_ or 0])
        cases.append({"examples": count, "rounding": rounding, "begins": begins})
    return cases


# -- features --
def kinds() -> list[Case]:
    return [{name: values[n] for name, (_, values) in KINDS.items()} for n in range(2)]


def decoded() -> list[Case]:
    """Return what TFDS makes of the examples, feature by feature, in storage order."""
    config = tfds.ReadConfig(interleave_cycle_length=1, add_tfds_id=True)
    dataset = open_folder("kinds").as_dataset(split="train", read_config=config)
    examples = [flatten(example) for example in dataset]
    return [
        {"name": name, "values": [example[name] for example in examples]}
        for name in sorted(examples[0])
    ]


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of an example, by their names from the root on."""
    if isinstance(value, tf.data.Dataset):
        steps = [flatten(step, path) for step in value]
        return {
            name: {**steps[0][name], "value": [step[name]["value"] for step in steps]}
            for name in steps[0]
        }
    if isinstance(value, dict):
        leaves: dict[str, Any] = {}
        for name, inner in value.items():
            leaves |= flatten(inner, f"{path}/{name}" if path else name)
        return leaves
    ragged = isinstance(value, tf.RaggedTensor)
    found = value.to_list() if ragged else value.numpy()
    shape = None if ragged else list(value.shape)
    return {path: {"dtype": value.dtype.name, "shape": shape, "value": plain(found)}}


def plain(value: Any) -> Any:
    """Return a value that JSON has: numbers with a fraction and bytes as hexadecimal text."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value.hex()
    return value.hex() if isinstance(value, bytes) else value


# -- records --
def record_examples() -> list[Any]:
    """Return examples at the edges of what one holds."""
    train = tf.train

    def ints(*values: int) -> Any:
        return train.Feature(int64_list=train.Int64List(value=values))

    return [
        train.Example(features=train.Features(feature=feature))
        for feature in (
            {"n": ints(0), "x": ints(1, -1, 2**63 - 1, -(2**63))},
            {"n": ints(1), "f": train.Feature(float_list=train.FloatList(value=[0.1, -0.0]))},
            {
                "n": ints(2),
                "b": train.Feature(bytes_list=train.BytesList(value=[b"", b"\xff"])),
            },
            {"n": ints(3), "x": train.Feature(), "f": train.Feature(), "b": train.Feature()},
        )
    ]


def write_records(folder: Path) -> None:
    """Let TensorFlow write the same examples plain and compressed."""
    for compression in ("", "GZIP", "ZLIB"):
        path = folder / f"{compression.lower() or 'plain'}.tfrecord"
        options = tf.io.TFRecordOptions(compression_type=compression)
        with tf.io.TFRecordWriter(str(path), options) as writer:
            for example in record_examples():
                writer.write(example.SerializeToString(deterministic=True))


RECORDINGS = {
    "examples": examples,
    "orders": orders,
    "splits": splits,
    "roundings": roundings,
    "features": decoded,
}

if __name__ == "__main__":
    main()
