"""Read TFRecord files of tf.train.Example messages, without TensorFlow."""

from pathlib import Path
from tempfile import TemporaryDirectory

import sweephand as sh


def main() -> None:
    """Write plain and compressed shards, and read them as one corpus."""
    with TemporaryDirectory() as folder:
        for shard in range(3):
            examples = [{"tokens": [shard] * (n + 1), "label": n % 2} for n in range(4)]
            path = Path(folder) / f"train-{shard:05}-of-00003"
            sh.tfrecord.write(path, examples, compression="gzip" if shard == 2 else None)
        corpus = sh.TFRecordDeserializer(
            str(Path(folder) / "train-*"),
            sh.StreamDefs(
                tokens=sh.StreamDef(dtype="int32", defines_mb_size=True),
                label=sh.StreamDef(dtype="uint8"),
            ),
        )
        with sh.MinibatchSource(corpus, max_sweeps=1) as source:
            for minibatch in source.minibatches(10):
                print(minibatch.num_samples, minibatch.ids)


if __name__ == "__main__":
    main()
