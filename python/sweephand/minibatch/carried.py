"""Minibatches on their way to another process: what the core holds of them, by value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.streams import StreamInfo


@dataclass(frozen=True)
class CarriedStream:
    """A stream of a minibatch; it answers as the core's does."""

    _arrays: dict[str, Any]
    num_samples: int
    num_elements: int
    longest: int
    is_grid: bool
    rows: int
    width: int

    @classmethod
    def of(cls, stream: AnyStream, info: StreamInfo, num_sequences: int) -> CarriedStream:
        """Copy a stream of the core; arrays are shared."""
        dtype = np.dtype(np.uint8) if info.is_bytes else info.dtype
        shape: tuple[int, ...] = (stream.num_samples, *info.shape)
        if stream.is_grid:
            shape = (stream.rows, stream.width, *info.shape)
        if info.is_variable:
            shape = (stream.num_elements,)
        arrays = {
            "values": stream.values(dtype, shape),
            "mask": stream.mask(),
            "sample_offsets": stream.sample_offsets(num_sequences),
            "element_offsets": stream.element_offsets(),
            "indices": stream.indices(),
            "beyond": stream.beyond(dtype, (num_sequences, *info.shape)),
        }
        return cls(
            arrays,
            stream.num_samples,
            stream.num_elements,
            stream.longest,
            stream.is_grid,
            stream.rows,
            stream.width,
        )

    def values(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        """Return the values as the core does."""
        return self._arrays["values"].reshape(shape)

    def beyond(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        """Return the samples behind pieces that go on, or None."""
        found = self._arrays["beyond"]
        return None if found is None else found.reshape(shape)

    def mask(self) -> Any:
        """Return what cells of a grid hold, or None."""
        return self._arrays["mask"]

    def sample_offsets(self, num_sequences: int) -> Any:
        """Return where sequences begin, or None where each has one sample."""
        return self._arrays["sample_offsets"]

    def element_offsets(self) -> Any:
        """Return where samples begin, or None where all have as many elements."""
        return self._arrays["element_offsets"]

    def indices(self) -> Any:
        """Return the columns of sparse elements, or None."""
        return self._arrays["indices"]


@dataclass(frozen=True)
class CarriedBatch:
    """A minibatch; it answers as the core's does."""

    nominal_time: int
    num_samples: int
    num_sequences: int
    sweeps_ended: int
    end_of_data: bool
    share_samples: int
    num_cells: int
    num_rows: int
    row_length: int
    _arrays: dict[str, Any]
    _streams: dict[int, CarriedStream]

    @classmethod
    def of(cls, batch: AnyBatch, streams: dict[int, StreamInfo]) -> CarriedBatch:
        """Copy those streams of a minibatch of the core; arrays are shared."""
        return cls(
            batch.nominal_time,
            batch.num_samples,
            batch.num_sequences,
            batch.sweeps_ended,
            batch.end_of_data,
            batch.share_samples,
            batch.num_cells,
            batch.num_rows,
            batch.row_length,
            {
                "sequences": batch.sequences(),
                "sizes": batch.sizes(),
                "cells": batch.cells(),
                "segment_ids": batch.segment_ids(),
                "position_ids": batch.position_ids(),
            },
            {
                number: CarriedStream.of(batch.stream(number), info, batch.num_sequences)
                for number, info in streams.items()
            },
        )

    def sequences(self) -> NDArray[np.uint64]:
        """Return the number in the corpus of every sequence."""
        return self._arrays["sequences"]  # type: ignore[no-any-return]

    def sizes(self) -> NDArray[np.uint32]:
        """Return the samples of every sequence or piece."""
        return self._arrays["sizes"]  # type: ignore[no-any-return]

    def cells(self) -> NDArray[np.uint32]:
        """Return where pieces stand in rows."""
        return self._arrays["cells"]  # type: ignore[no-any-return]

    def segment_ids(self) -> Any:
        """Return which sequence every cell holds, or None."""
        return self._arrays["segment_ids"]

    def position_ids(self) -> Any:
        """Return where in its sequence every cell is, or None."""
        return self._arrays["position_ids"]

    def stream(self, number: int) -> CarriedStream:
        """Return a stream by its number."""
        return self._streams[number]


class CarriedIds(SequenceIds):
    """The ids of a minibatch's sequences."""

    def __init__(self, numbers: NDArray[np.integer], names: list[str]) -> None:
        self._names: dict[int, str] = dict(zip(numbers.tolist(), names, strict=True))

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the corpus."""
        return [self._names[number] for number in numbers.tolist()]

    def number(self, name: str) -> int:
        """Return the number in the corpus of the sequence with this id."""
        for number, found in self._names.items():
            if found == name:
                return number
        raise KeyError(f"the minibatch has no sequence with the id {name!r}")


AnyBatch = _core.engine.Batch | CarriedBatch
AnyStream = _core.engine.StreamBatch | CarriedStream
