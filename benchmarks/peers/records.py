"""Examples of a TFRecord file into batched columns: ours, TensorFlow, `tfrecord` for torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.suite.corpora import write_examples

import sweephand as sh

BATCH = 1024
_FOLDER = TemporaryDirectory()


def _file() -> tuple[str, int]:
    path = str(Path(_FOLDER.name) / "x.tfrecord")
    return path, write_examples(path)


def ours() -> Iterator[int]:
    label = sh.StreamDef(shape=1, defines_mb_size=True)
    streams = sh.StreamDefs(tokens=sh.StreamDef(), label=label)
    corpus = sh.TFRecordDeserializer(_file()[0], streams)
    while True:
        with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, num_threads=0) as source:
            yield from (one.num_samples for one in source.minibatches(BATCH))


def by_tensorflow() -> Iterator[int]:
    """Whole batches, on one thread."""
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
        tf.data.TFRecordDataset(_file()[0])
        .batch(BATCH)
        .map(lambda batch: tf.io.parse_example(batch, features))
        .with_options(options)
    )
    while True:
        yield from (int(batch["label"].shape[0]) for batch in dataset)


def by_tfrecord() -> Iterator[int]:
    """An example at a time, into a dict of arrays."""
    from tfrecord.reader import tfrecord_loader

    path, _ = _file()
    while True:
        yield from (1 for _ in tfrecord_loader(path, None, {"tokens": "int", "label": "int"}))
