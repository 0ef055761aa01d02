"""Where the sequences of a stream begin and end, in `values` and in dense arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import _core
from sweephand.layouts import Layout
from sweephand.minibatch.lazy import lazy
from sweephand.minibatch.mask import GAP, START, mask_of_rows
from sweephand.minibatch.pieces import Pieces, repeat_last, segments_of
from sweephand.minibatch.sequence_parts import SequenceParts
from sweephand.minibatch.served import ServedStream


class Boundaries(ServedStream):
    """Boundaries of the sequences of one stream of a minibatch."""

    @property
    def _layout(self) -> Layout:
        return self._minibatch_parts[1].layout

    @property
    def _device(self) -> object:
        return self._minibatch_parts[2]

    @lazy
    def _stream(self) -> _core.engine.StreamBatch:
        return self._batch.stream(self._number)

    @property
    def num_sequences(self) -> int:
        """Sequences in this worker's share."""
        return self._batch.share_size

    @property
    def num_samples(self) -> int:
        """Samples of this stream in this worker's share."""
        return self._stream.num_samples

    @property
    def global_num_samples(self) -> int:
        """Samples of this stream over all workers, as planned; no communication is needed.

        Raises
        ------
        ValueError
            If the lengths of the stream are not known before it is read.
        """
        batch, info = self._batch, self.info
        if info.is_sized:
            return batch.num_samples
        if info.is_single:
            return batch.num_sequences
        if self._is_all:
            return self.num_samples
        raise self._unknown_lengths()

    @property
    def _is_all(self) -> bool:
        """True if the share holds all of the minibatch."""
        batch = self._batch
        return bool(batch.share_size + len(batch.banned()) == batch.num_sequences)

    def _unknown_lengths(self) -> ValueError:
        info = self.info
        return ValueError(
            f"how many samples the other workers have of stream {info.name!r} is not known "
            "before it is read: say that it defines the size, StreamDef(..., "
            "defines_mb_size=True), or sum its num_samples over the workers"
        )

    @property
    def end_of_sweep(self) -> bool:
        """True if the global minibatch holds the last sequence of a sweep."""
        return self._batch.sweeps_ended > 0

    @property
    def max_seqlen(self) -> int:
        """Samples of the longest sequence, or part of a sequence; 0 in an empty share."""
        parts = self.sequence_parts
        return self._stream.longest if parts is None else parts.longest

    @property
    def shape(self) -> tuple[int, ...]:
        """(sequences, longest sequence, *sample shape)."""
        return (self.num_sequences, self._stream.longest, *self.info.shape)

    @property
    def dense_shape(self) -> tuple[int, ...]:
        """The shape of `asarray`; nothing is made for it."""
        if self.info.is_single:
            return (self.num_sequences, *self.info.shape)
        if self._is_grid and not self.info.is_variable:
            return self._array.shape
        return (*self.mask.shape, *self.info.shape)

    @lazy
    def offsets(self) -> NDArray[np.int64]:
        """Where sequences begin in `values`, and the end: int64, shape (sequences + 1,)."""
        offsets: NDArray[np.int64] | None = self._batch.sample_offsets(self._number)
        if offsets is None:  # one sample each
            return np.arange(self.num_sequences + 1)
        return offsets

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Samples of each sequence: int64, shape (sequences,)."""
        return np.diff(self.offsets)

    @property
    def sequences(self) -> NDArray[np.int64]:
        """Which sequence of the share each of `values` is of: int64, shape (samples,).

        In a layout of rows these are the segments, row after row.
        """
        return np.repeat(np.arange(self.num_sequences), self.lengths)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each of `values`: int64, shape (samples,).

        In a layout without rows a sequence is a row. A model that replaces placeholders by
        carried items finds its k-th item at the k-th placeholder of that row.
        """
        if not self._layout.has_rows:
            return self.sequences
        rows = self._batch.cells().reshape(-1, 4)[:, 0].astype(np.int64)
        return np.repeat(rows, self.lengths)

    @property
    def cu_seqlens(self) -> NDArray[np.int32]:
        """`offsets` as int32, for attention kernels; those of parts if sequences have parts.

        Returns
        -------
        ndarray of int32, shape (sequences + 1,)
            With ``Packed(cu_seqlens_capacity=n)`` always n + 1 entries: the last one repeats.

        Raises
        ------
        OverflowError
            If there are 2^31 samples or more.
        ValueError
            If there are more sequences than the layout's capacity.
        """
        if self.num_samples > np.iinfo(np.int32).max:
            raise OverflowError(f"{self.num_samples} samples do not fit int32 offsets")
        parts = self.sequence_parts
        offsets = self.offsets if parts is None else parts.offsets
        return repeat_last(offsets, self._layout.cu_seqlens_capacity)

    @property
    def row_cu_seqlens(self) -> NDArray[np.int32]:
        """Boundaries of sequences inside each row of a layout of rows.

        Returns
        -------
        ndarray of int32, shape (rows, most sequences of a row + 1)
            From 0; the last boundary of a row repeats. With
            ``Packed(cu_seqlens_capacity=n)`` always n + 1 columns.
        """
        return self._pieces.boundaries(self._layout.cu_seqlens_capacity)

    @property
    def dense_cu_seqlens(self) -> NDArray[np.int32]:
        """Boundaries in ``asarray().reshape(-1)`` of a layout of rows, for static shapes.

        The padding of a row is a sequence of its own, so that every cell belongs to one; as it
        may be the longest, take the row length for the longest.

        Returns
        -------
        ndarray of int32, shape (sequences + padded rows + 1,)
            With ``Packed(cu_seqlens_capacity=n)`` always n + rows + 1 entries: the last one
            repeats.
        """
        rows, width = self._batch.num_rows, self._batch.row_length
        boundaries = self._pieces.dense_boundaries(width)
        return repeat_last(boundaries, self._layout.cu_seqlens_capacity, rows)

    @property
    def segment_ids(self) -> NDArray[np.int32]:
        """Which sequence of its row every cell holds: `Minibatch.segment_ids`."""
        if self.sequence_parts is not None:
            return self._pieces.segments(self._batch.row_length)
        return segments_of(self._batch.segment_ids(), self._layout)

    @property
    def position_ids(self) -> NDArray[np.int32]:
        """Where in its sequence every cell is: `Minibatch.position_ids`."""
        if self.sequence_parts is not None:
            return self._pieces.positions(self._batch.row_length)
        return segments_of(self._batch.position_ids(), self._layout)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where pieces begin in a layout of rows: `Minibatch.starts`."""
        return self._pieces.starts()

    @lazy
    def mask(self) -> NDArray[np.uint8]:
        """Which cells of `asarray` hold data: uint8; 2 start of a sequence, 1 valid, 0 gap."""
        if self.info.is_single:
            return np.full(self.num_sequences, START, np.uint8)
        if self._is_grid:
            cells: NDArray[np.uint8] = self._batch.mask(self._number)
            return cells
        if self.info.carried:
            return mask_of_rows(self.lengths, self.max_seqlen, pad_left=False)
        options = self._batch.options
        width = -(-self._stream.longest // options.multiple_of) * options.multiple_of
        width = max(width, self._batch.row_length)  # a bucket's
        return mask_of_rows(self.lengths, width, pad_left=options.pad_left)

    def valid_mask(self, dtype: DTypeLike = np.bool_) -> NDArray[Any]:
        """Return 1 in the cells of `asarray` that hold data and 0 in gaps, in any dtype."""
        valid: NDArray[Any] = (self.mask != GAP).astype(dtype)
        return valid

    @lazy
    def _pieces(self) -> Pieces:
        pieces, parts = Pieces.of(self._batch, self._layout), self.sequence_parts
        return pieces if parts is None else parts.pieces(pieces)

    @property
    def sequence_parts(self) -> SequenceParts | None:
        """The parts of the sequences, if they have any."""
        return None
