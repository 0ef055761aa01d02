"""The machine's limits: C loops over an order that is given, compiled at first use."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SLOTS = 4  # minibatches whose output is in use at a time, as with a loader that runs ahead
_SOURCE = Path(__file__).with_name("limits.c")
_FLAGS = ["-O3", "-march=native", "-shared", "-fPIC"]


@cache
def _library() -> ctypes.CDLL:
    compiler = os.environ.get("CC", "cc")
    text = _SOURCE.read_bytes()
    name = hashlib.sha256(text + " ".join([compiler, *_FLAGS]).encode()).hexdigest()[:16]
    built = Path(tempfile.gettempdir()) / f"sweephand-limits-{os.getuid()}-{name}.so"
    if not built.exists():
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            fresh = Path(folder) / "limits.so"
            subprocess.run([compiler, *_FLAGS, "-o", fresh, _SOURCE], check=True)
            fresh.rename(built)
    return ctypes.CDLL(str(built))


class Order(NamedTuple):
    """Minibatch b is the sequences ``sequences[batches[b]:batches[b + 1]]``."""

    sequences: NDArray[np.int64]
    batches: NDArray[np.int64]


def _call(kernel: str, *arguments: NDArray[np.generic] | int) -> None:
    """Call a kernel with pointers to arrays, and sizes."""
    assert all(isinstance(one, int) or one.flags.c_contiguous for one in arguments)
    _library()[kernel](
        *(
            ctypes.c_size_t(one) if isinstance(one, int) else ctypes.c_void_p(one.ctypes.data)
            for one in arguments
        )
    )


def row_gather(
    rows: NDArray[np.generic], labels: NDArray[np.int64], order: Order, slot: int
) -> Callable[[], None]:
    """Rows and one int64 label each, picked at random."""
    out = np.zeros((SLOTS * slot, *rows.shape[1:]), rows.dtype)
    out_labels = np.zeros(SLOTS * slot, np.int64)
    return lambda: _call(
        "gather_rows", rows, labels, rows[0].nbytes, *order, len(order.batches) - 1, out,
        out_labels, slot, SLOTS,
    )  # fmt: skip


def ragged_gather(
    tokens: NDArray[np.uint16], offsets: NDArray[np.int64], order: Order, slot: int
) -> Callable[[], None]:
    """Sequences of tokens, laid one behind the other."""
    out, out_offsets = np.zeros(SLOTS * slot, np.uint16), np.zeros(SLOTS * slot, np.int64)
    return lambda: _call(
        "gather_ragged", tokens, offsets, *order, len(order.batches) - 1, out, out_offsets,
        slot, SLOTS,
    )  # fmt: skip


def padded_gather(
    tokens: NDArray[np.uint16], offsets: NDArray[np.int64], order: Order, slot: int
) -> Callable[[], None]:
    """Sequences of tokens as a grid of int64, and a mask of uint8."""
    out, mask = np.zeros(SLOTS * slot, np.int64), np.zeros(SLOTS * slot, np.uint8)
    return lambda: _call(
        "gather_padded", tokens, offsets, *order, len(order.batches) - 1, out, mask, slot, SLOTS
    )


def row_packer(
    tokens: NDArray[np.uint16],
    offsets: NDArray[np.int64],
    sequences: NDArray[np.int64],
    length: int,
    rows: int,
) -> Callable[[], None]:
    """Sequences of tokens, packed into rows with segments, positions and a mask."""
    rows *= SLOTS
    out, mask = np.zeros(rows * length, np.uint16), np.zeros(rows * length, np.uint8)
    segments, positions = np.zeros((2, rows * length), np.int32)
    window = 10_000
    return lambda: _call(
        "pack_rows", tokens, offsets, sequences, len(sequences), window, length, out, segments,
        positions, mask, rows,
    )  # fmt: skip
