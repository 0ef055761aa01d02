"""The machine's limits: C loops over an order that is given, compiled at first use."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
        with tempfile.TemporaryDirectory() as folder:
            fresh = Path(folder) / "limits.so"
            subprocess.run([compiler, *_FLAGS, "-o", fresh, _SOURCE], check=True)
            fresh.rename(built)
    return ctypes.CDLL(str(built))


@dataclass
class Order:
    """Minibatch b is the sequences ``sequences[batches[b]:batches[b + 1]]``."""

    sequences: NDArray[np.int64]
    batches: NDArray[np.int64]

    def _arguments(self) -> tuple[object, ...]:
        return _pointer(self.sequences), _pointer(self.batches), _size(len(self.batches) - 1)


class RowGather:
    """Rows and one int64 label each, picked at random."""

    def __init__(self, rows: NDArray[np.generic], labels: NDArray[np.int64], slot: int) -> None:
        self.rows, self.labels, self.slot = rows, labels, slot
        self.out = np.zeros((SLOTS * slot, *rows.shape[1:]), rows.dtype)
        self.out_labels = np.zeros(SLOTS * slot, np.int64)

    def __call__(self, order: Order) -> None:
        row_bytes = self.rows[0].nbytes
        _library().gather_rows(
            _pointer(self.rows), _pointer(self.labels), _size(row_bytes), *order._arguments(),
            _pointer(self.out), _pointer(self.out_labels), _size(self.slot), _size(SLOTS),
        )  # fmt: skip


class RaggedGather:
    """Sequences of uint16 tokens, laid one behind the other."""

    def __init__(
        self, tokens: NDArray[np.uint16], offsets: NDArray[np.int64], slot: int
    ) -> None:
        self.tokens, self.offsets, self.slot = tokens, offsets, slot
        self.out = np.zeros(SLOTS * slot, np.uint16)
        self.out_offsets = np.zeros(SLOTS * slot, np.int64)

    def __call__(self, order: Order) -> None:
        _library().gather_ragged(
            _pointer(self.tokens), _pointer(self.offsets), *order._arguments(),
            _pointer(self.out), _pointer(self.out_offsets), _size(self.slot), _size(SLOTS),
        )  # fmt: skip


class PaddedGather:
    """Sequences of uint16 tokens as a grid of int64, and a mask of uint8."""

    def __init__(
        self, tokens: NDArray[np.uint16], offsets: NDArray[np.int64], slot: int
    ) -> None:
        self.tokens, self.offsets, self.slot = tokens, offsets, slot
        self.out = np.zeros(SLOTS * slot, np.int64)
        self.mask = np.zeros(SLOTS * slot, np.uint8)

    def __call__(self, order: Order) -> None:
        _library().gather_padded(
            _pointer(self.tokens), _pointer(self.offsets), *order._arguments(),
            _pointer(self.out), _pointer(self.mask), _size(self.slot), _size(SLOTS),
        )  # fmt: skip


class RowPacker:
    """Sequences of uint16 tokens, packed into rows with segments, positions and a mask."""

    def __init__(
        self,
        tokens: NDArray[np.uint16],
        offsets: NDArray[np.int64],
        row_length: int,
        rows: int,
        window: int = 10_000,
    ) -> None:
        self.tokens, self.offsets = tokens, offsets
        self.row_length, self.rows, self.window = row_length, SLOTS * rows, window
        cells = self.rows * row_length
        self.out = np.zeros(cells, np.uint16)
        self.segments, self.positions = np.zeros((2, cells), np.int32)
        self.mask = np.zeros(cells, np.uint8)

    def __call__(self, sequences: NDArray[np.int64]) -> int:
        """Return the number of rows."""
        pack = _library().pack_rows
        pack.restype = ctypes.c_size_t
        found = pack(
            _pointer(self.tokens), _pointer(self.offsets), _pointer(sequences),
            _size(len(sequences)), _size(self.window), _size(self.row_length),
            _pointer(self.out), _pointer(self.segments), _pointer(self.positions),
            _pointer(self.mask), _size(self.rows),
        )  # fmt: skip
        return int(found)


def _pointer(array: NDArray[np.generic]) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def _size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)
