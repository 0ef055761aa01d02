"""Examples of a TFRecord file into batched columns: TensorFlow, `tfrecord` for torch."""

from __future__ import annotations

import os
from itertools import count

from benchmarks.suite.bench_formats import BATCH
from benchmarks.suite.turn import Steps


def by_tensorflow() -> Steps:
    """Whole batches of shuffled records, on one thread."""
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
        tf.data.TFRecordDataset("x.tfrecord")
        .shuffle(10_000, seed=0)
        .batch(BATCH)
        .map(lambda batch: tf.io.parse_example(batch, features))
        .with_options(options)
    )
    for _ in count():
        yield from (int(batch["label"].shape[0]) for batch in dataset)


def by_tfrecord() -> Steps:
    """An example at a time, in order, into a dict of arrays."""
    from tfrecord.reader import tfrecord_loader

    for _ in count():
        examples = tfrecord_loader("x.tfrecord", None, {"tokens": "int", "label": "int"})
        yield from (1 for _ in examples)
