"""The same functions as records of another format, and in rows without padding."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sweephand import tfrecord
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.demo.library_text import LibraryText
from sweephand.deserializers.array import ArrayDeserializer
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.tfrecord_files import TFRecordDeserializer
from sweephand.layouts import Layout, Packed, Padded
from sweephand.source.source import MinibatchSource

ROW_LENGTH = 4096


def first_functions(corpus: LibraryText, most: int) -> LibraryText:
    """Return the first functions of a corpus, `most` at the most."""
    count = min(most, len(corpus.names))
    offsets = corpus.offsets[: count + 1]
    return LibraryText(corpus.tokens[: offsets[-1]], offsets, corpus.names[:count])


def write_records(corpus: LibraryText, path: Path) -> int:
    """Write every function as a `tf.train.Example`; returns how many there are."""
    functions = np.split(corpus.tokens.astype(np.int64), corpus.offsets[1:-1])
    return tfrecord.write(path, ({"bytes": function} for function in functions))


def same_minibatches(
    corpus: LibraryText, path: Path, *, size: int, seed: int
) -> tuple[int, bool]:
    """Take a sweep from records and from memory.

    A window that covers all chunks is no window: chunks do not matter then.

    Returns
    -------
    int
        Minibatches of the sweep.
    bool
        Whether all were the same.
    """
    stored = TFRecordDeserializer(path, StreamDefs(bytes=StreamDef(dtype=np.uint8)))
    with (
        _one_sweep(stored, seed) as records,
        _one_sweep(_in_memory(corpus), seed) as arrays,
    ):
        pairs = list(zip(records.minibatches(size), arrays.minibatches(size), strict=True))
        same = [
            one.nominal_time == other.nominal_time
            and np.array_equal(one["bytes"].values, other["bytes"].values)
            and np.array_equal(one["bytes"].offsets, other["bytes"].offsets)
            for one, other in pairs
        ]
    return len(same), all(same)


def fills(corpus: LibraryText, *, seed: int) -> dict[str, float]:
    """Return the share of cells that hold a byte: as padded minibatches, and as packed rows."""
    size = 16 * ROW_LENGTH
    layouts: dict[str, Layout] = {
        "padded to the longest": Padded(),
        f"packed in rows of {ROW_LENGTH:,}": Packed(ROW_LENGTH, split_long="split"),
    }
    found = {}
    for name, layout in layouts.items():
        with _one_sweep(_in_memory(corpus), seed, layout) as source:
            taken = [(m.num_samples, m.fill_ratio) for m in source.minibatches(size)]
        samples = sum(count for count, _ in taken)
        found[name] = samples / sum(count / fill for count, fill in taken)
    return found


def _in_memory(corpus: LibraryText) -> ArrayDeserializer:
    return ArrayDeserializer({"bytes": (corpus.tokens, corpus.offsets)})


def _one_sweep(
    deserializer: Deserializer, seed: int, layout: Layout | None = None
) -> MinibatchSource:
    return MinibatchSource(
        deserializer,
        max_sweeps=1,
        randomization_seed=seed,
        randomization_window_in_chunks=2**32,
        layout=layout,
    )
