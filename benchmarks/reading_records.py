"""TFRecord examples into batched columns, beside TensorFlow and the `tfrecord` package.

``python -m benchmarks.reading_records`` prints records per second of processor time, of all
threads; each contender has a process of its own, and those not installed are left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.reading import Records, best_seconds

import sweephand as sh

_BATCH = 1024
_REPEATS = 5


def minibatches(records: Records) -> Callable[[], object]:
    """Whole minibatches of a source, in the order of the file."""
    streams = sh.StreamDefs(
        tokens=sh.StreamDef(), label=sh.StreamDef(shape=1, defines_mb_size=True)
    )
    corpus = sh.TFRecordDeserializer(records.path, streams)

    def run() -> int:
        with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, num_threads=0) as source:
            return sum(batch["tokens"].num_samples for batch in source.minibatches(_BATCH))

    return run


def tensorflow(records: Records) -> Callable[[], object]:
    """Return what `tf.data` does with whole batches, on one thread."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    features = {
        "tokens": tf.io.RaggedFeature(tf.int64),
        "label": tf.io.FixedLenFeature((), tf.int64),
    }
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    dataset = (
        tf.data.TFRecordDataset(str(records.path))
        .batch(_BATCH)
        .map(lambda batch: tf.io.parse_example(batch, features))
        .with_options(options)
    )
    return lambda: sum(int(batch["tokens"].flat_values.shape[0]) for batch in dataset)


def tfrecord_package(records: Records) -> Callable[[], object]:
    """Return what the `tfrecord` package does: an example at a time, into a dict of arrays."""
    from tfrecord.reader import tfrecord_loader

    kinds = {"tokens": "int", "label": "int"}
    return lambda: sum(
        len(one["tokens"]) for one in tfrecord_loader(str(records.path), None, kinds)
    )


CONTENDERS: dict[str, tuple[str, Callable[[Records], Callable[[], object]]]] = {
    "sweephand, columns": ("sweephand", lambda records: records.read),
    "sweephand, minibatches": ("sweephand", minibatches),
    "tf.data, batch and parse_example": ("tensorflow", tensorflow),
    "the tfrecord package": ("tfrecord", tfrecord_package),
}


def measure(name: str) -> None:
    """Print the figure of one contender."""
    with TemporaryDirectory() as folder:
        records = Records(Path(folder))
        rate = records.num_records / best_seconds(CONTENDERS[name][1](records), _REPEATS)
        print(f"{name:34} {rate / 1e3:8.0f} k/s")


def main() -> None:
    """Print all figures; each contender has a process of its own, as two of them clash."""
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    for name, (package, _) in CONTENDERS.items():
        if find_spec(package):
            command = [sys.executable, "-m", "benchmarks.reading_records", name]
            subprocess.run(command, check=True)
        else:
            print(f"{name:34} is not installed")


if __name__ == "__main__":
    main()
