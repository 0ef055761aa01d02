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
from typing import Any, NamedTuple

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


Array = NDArray[Any]


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


def row_gather(rows: Array, labels: Array, order: Order, slot: int) -> Callable[[], None]:
    """Rows and one int64 label each, picked at random."""
    out = np.zeros((SLOTS * slot, *rows.shape[1:]), rows.dtype)
    out_labels = np.zeros(SLOTS * slot, np.int64)
    return lambda: _call(
        "gather_rows", rows, labels, rows[0].nbytes, *order, len(order.batches) - 1, out,
        out_labels, slot, SLOTS,
    )  # fmt: skip


def ragged_gather(tokens: Array, offsets: Array, order: Order, slot: int) -> Callable[[], None]:
    """Sequences of int32 tokens, or int64 that become int32, laid one behind the other."""
    kernel = "gather_ragged" if tokens.dtype == np.int32 else "gather_narrowed"
    out, out_offsets = np.zeros(SLOTS * slot, np.int32), np.zeros(SLOTS * slot, np.int64)
    return lambda: _call(
        kernel, tokens, offsets, *order, len(order.batches) - 1, out, out_offsets,
        slot, SLOTS,
    )  # fmt: skip


def padded_gather(
    tokens: Array, offsets: Array, order: Order, dtype: type[np.integer] = np.int32
) -> Callable[[], None]:
    """Sequences of int32 tokens as a grid of int32 or int64, and a mask of uint8."""
    kernel = "gather_padded" if dtype is np.int32 else "gather_widened"
    widths = np.maximum.reduceat(np.diff(offsets)[order.sequences], order.batches[:-1])
    slot = int((widths * np.diff(order.batches)).max())
    out, mask = np.zeros(SLOTS * slot, dtype), np.zeros(SLOTS * slot, np.uint8)
    return lambda: _call(
        kernel, tokens, offsets, *order, len(order.batches) - 1, out, mask, slot, SLOTS
    )


def row_packer(
    tokens: Array, offsets: Array, sequences: Array, length: int, rows: int
) -> Callable[[], None]:
    """Sequences of int32 tokens, packed into rows with segments and positions."""
    rows *= SLOTS
    out, segments, positions = np.zeros((3, rows * length), np.int32)
    window = 10_000
    return lambda: _call(
        "pack_rows", tokens, offsets, sequences, len(sequences), window, length, out, segments,
        positions, rows,
    )  # fmt: skip


def digit_reader(text: bytes) -> Callable[[], None]:
    """Digits to float32."""
    data, out = np.frombuffer(text, np.uint8), np.zeros(1 << 14, np.float32)
    return lambda: _call("read_digits", data, len(data), out, len(out))


def varint_reader(
    values: NDArray[np.int64], kernel: str = "read_varints"
) -> Callable[[], None]:
    """Varints, made of these values below 2^56, to int64."""
    groups = values[:, None] >> 7 * np.arange(8)
    has_next = np.column_stack([groups[:, 1:], values * 0]) > 0
    kept = np.column_stack([np.ones(len(values), bool), has_next[:, :-1]])
    coded = (groups & 127 | has_next * 128).astype(np.uint8)[kept]
    data, out = np.append(coded, np.zeros(64, np.uint8)), np.zeros(1 << 14, np.int64)
    return lambda: _call(kernel, data, len(coded), out, len(out))
