"""Open a prepared TFDS folder in TFDS' own order, and go on at any example."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import sweephand as sh


def prepare(folder: Path) -> None:
    """Write what TFDS would: two shards, what there is, and what the features are."""
    for shard in range(2):
        examples = [{"image": b"PNG", "label": 10 * shard + n} for n in range(5)]
        sh.tfrecord.write(folder / f"demo-train.tfrecord-{shard:05}-of-00002", examples)
    split = {"name": "train", "shardLengths": ["5", "5"]}
    info = {"name": "demo", "version": "1.0.0", "splits": [split]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    features = {"image": {"image": {}}, "label": {"classLabel": {"numClasses": "20"}}}
    tree = {"featuresDict": {"features": features}}
    (folder / "features.json").write_text(json.dumps(tree))


def main() -> None:
    """Read in TFDS' order, stop, and go on in another source."""
    with TemporaryDirectory() as folder:
        prepare(Path(folder))
        config = sh.tfds.ReadConfig(shuffle_seed=7, interleave_block_length=2)
        dataset = sh.tfds.load(folder, "train[1:]", shuffle_files=True, read_config=config)
        with sh.MinibatchSource(dataset, randomize=False) as source:
            print(source.next_minibatch(4)["label"].values)
            state = source.get_checkpoint_state()
        with sh.MinibatchSource(dataset, randomize=False) as again:
            again.restore_from_checkpoint(state)
            minibatch = again.next_minibatch(5)
            print(minibatch["label"].values, minibatch.ids[0])
        with sh.MinibatchSource(dataset) as ours:  # the same examples, shuffled as a whole
            print(ours.next_minibatch(9)["label"].values)


if __name__ == "__main__":
    main()
