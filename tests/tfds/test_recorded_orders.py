"""Read orders are those of the real TFDS: for who has it, with SWEEPHAND_TFDS=1."""

from __future__ import annotations

import os
import warnings
from typing import Any

import pytest

import sweephand as sh

if os.environ.get("SWEEPHAND_TFDS") != "1":
    pytest.skip("SWEEPHAND_TFDS=1 compares with TFDS", allow_module_level=True)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what TensorFlow warns of is not ours
    tf = pytest.importorskip("tensorflow")
    tfds = pytest.importorskip("tensorflow_datasets")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What TFDS prepared: 158 numbers in seven shards, of 22 and of 23."""
    return tfds.dataset_builders.store_as_tfds_dataset(
        name="numbers",
        version="1.0.0",
        features=tfds.features.FeaturesDict({"x": tfds.features.Scalar(tf.int64)}),
        split_datasets={"train": tf.data.Dataset.range(158).map(lambda n: {"x": n})},
        data_dir=str(tmp_path_factory.mktemp("tfds")),
        download_config=tfds.download.DownloadConfig(num_shards=7, try_download_gcs=False),
    )


def record(dataset: Any) -> list[tuple[str, int]]:
    """Return one pass of TFDS: ids and values."""
    examples = dataset.as_numpy_iterator()
    return [(one["tfds_id"].decode(), int(one["x"])) for one in examples]


@pytest.mark.parametrize("split", ["train", "train[10:-9]", "train[2shard:]+train[:7%]"])
@pytest.mark.parametrize(("cycle", "block"), [(16, 16), (1, 1), (3, 4), (2, 23), (7, 1)])
@pytest.mark.parametrize(
    ("seed", "reshuffle"), [(None, True), (0, True), (7, True), (2**31 - 1, True), (7, False)]
)
def test_three_passes_are_those_of_tfds(
    builder: Any, split: str, cycle: int, block: int, seed: int | None, reshuffle: bool
) -> None:
    options: dict[str, Any] = {
        "interleave_cycle_length": cycle,
        "interleave_block_length": block,
        "shuffle_seed": seed,
        "shuffle_reshuffle_each_iteration": reshuffle,
        "add_tfds_id": True,
    }
    shuffle = seed is not None
    theirs = builder.as_dataset(
        split=split,
        shuffle_files=shuffle,
        read_config=tfds.ReadConfig(try_autocache=False, **options),
    )
    ours = sh.tfds.load(
        os.fspath(builder.data_dir), split, shuffle, sh.tfds.ReadConfig(**options)
    )
    with sh.MinibatchSource(ours, randomize=False, max_sweeps=3) as source:
        for number in range(3):
            batch = source.next_minibatch(len(ours))
            wanted = record(theirs)
            assert list(zip(batch.ids, batch["x"].values.tolist(), strict=True)) == wanted
            assert ours.ids(0, len(ours), number=number) == [name for name, _ in wanted]
