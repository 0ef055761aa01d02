"""A source of ours. Every function yields the samples of each minibatch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from benchmarks.corpora import ROW_MINIBATCH, TOKEN_BUDGET, Rows, Tokens

import sweephand as sh


def rows(corpus: Rows) -> Iterator[int]:
    data = sh.ArrayDeserializer({"rows": corpus.rows, "labels": corpus.labels})
    with sh.MinibatchSource(data, num_threads=2, prefetch=8) as source:
        for minibatch in source.minibatches(ROW_MINIBATCH):
            _ = minibatch["rows"].values, minibatch["labels"].values
            yield minibatch.num_samples


def ragged(corpus: Tokens) -> Iterator[int]:
    data = sh.ArrayDeserializer({"tokens": (corpus.tokens, corpus.offsets)})
    with sh.MinibatchSource(data, num_threads=2, prefetch=4) as source:
        for minibatch in source.minibatches(TOKEN_BUDGET):
            _ = minibatch["tokens"].values, minibatch["tokens"].offsets
            yield minibatch.num_samples


def padded(corpus: Tokens) -> Iterator[int]:
    wide = sh.StreamDefs(tokens=sh.StreamDef(dtype=np.int64))
    data = sh.ArrayDeserializer({"tokens": (corpus.tokens, corpus.offsets)}, wide)
    with sh.MinibatchSource(data, layout=sh.Padded(), num_threads=2, prefetch=4) as source:
        for minibatch in source.minibatches(TOKEN_BUDGET):
            _ = minibatch["tokens"].asarray(), minibatch["tokens"].mask
            yield minibatch.num_samples
