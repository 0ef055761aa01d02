"""One stream of a minibatch, in all the forms that consumers want."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import _core
from sweephand.corpus.streams import StreamInfo
from sweephand.layouts import Layout, Packed, pad_element
from sweephand.minibatch.lazy import lazy
from sweephand.minibatch.pieces import GAP, START, VALID, Pieces, next_tokens, same_tokens

if TYPE_CHECKING:
    import torch


class MinibatchData:
    """One stream of a minibatch. Its arrays own their data and stay valid and unchanged."""

    def __init__(
        self,
        info: StreamInfo,
        batch: _core.engine.Batch,
        number: int,
        layout: Layout,
        device: object = None,
    ) -> None:
        self.info = info
        self._batch = batch
        self._number = number
        self._stream = batch.stream(number)
        self._layout = layout
        self._device = device
        self._minibatch_parts: Any = None  # of the minibatch that hands it out

    @property
    def num_sequences(self) -> int:
        """Sequences in this worker's share."""
        return self._batch.share_size

    @property
    def num_samples(self) -> int:
        """Samples of this stream in this worker's share."""
        return self._stream.num_samples

    @property
    def end_of_sweep(self) -> bool:
        """Whether the global minibatch holds the last sequence of a sweep."""
        return self._batch.sweeps_ended > 0

    @property
    def is_sparse(self) -> bool:
        """Whether samples come as indices and values."""
        return self.info.is_sparse

    @property
    def is_padded(self) -> bool:
        """Whether the layout made one dense array of it: `asarray` then costs nothing."""
        return self._is_grid

    @property
    def max_seqlen(self) -> int:
        """Samples of the longest sequence; 0 in an empty share."""
        return self._stream.longest

    @property
    def shape(self) -> tuple[int, ...]:
        """(sequences, longest sequence, *sample shape)."""
        return (self.num_sequences, self.max_seqlen, *self.info.shape)

    @property
    def dense_shape(self) -> tuple[int, ...]:
        """The shape of `asarray`; nothing is made for it."""
        if self._is_grid:
            return (self._stream.rows, self._stream.width, *self.info.shape)
        return (*self.mask.shape, *self.info.shape)

    @lazy
    def offsets(self) -> NDArray[np.int64]:
        """Where sequences begin in `values`, and the end: int64, shape (sequences + 1,)."""
        offsets: NDArray[np.int64] | None = self._stream.sample_offsets(self.num_sequences)
        if offsets is None:  # one sample each
            return np.arange(self.num_sequences + 1)
        return offsets

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Samples of each sequence: int64, shape (sequences,)."""
        return np.diff(self.offsets)

    @property
    def cu_seqlens(self) -> NDArray[np.int32]:
        """`offsets` as int32, as attention kernels want them.

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
        offsets = self.offsets.astype(np.int32)
        capacity = self._capacity
        return offsets if capacity is None else _repeat_last(offsets, capacity)

    @property
    def row_cu_seqlens(self) -> NDArray[np.int32]:
        """Boundaries of sequences inside each row of a layout of rows.

        Returns
        -------
        ndarray of int32, shape (rows, most sequences of a row + 1)
            From 0; the last boundary of a row repeats. With
            ``Packed(cu_seqlens_capacity=n)`` always n + 1 columns.
        """
        return self._pieces.boundaries(self._capacity)

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
        rows, width = self.dense_shape[:2]
        boundaries = self._pieces.dense_boundaries(width).astype(np.int32)
        if self._capacity is None:
            return boundaries
        return _repeat_last(boundaries, self._capacity + rows)

    @property
    def segment_ids(self) -> NDArray[np.int32]:
        """Which sequence of its row every cell holds: `Minibatch.segment_ids`."""
        return segments_of(self._batch.segment_ids(), self._layout)

    @property
    def position_ids(self) -> NDArray[np.int32]:
        """Where in its sequence every cell is: `Minibatch.position_ids`."""
        return segments_of(self._batch.position_ids(), self._layout)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where pieces begin in a layout of rows: `Minibatch.starts`."""
        return self._pieces.starts()

    def labels(self, ignore_index: int = -100, shifted: bool = True) -> NDArray[np.int64]:
        """Return what a model is to predict at every sample, never across a border.

        Parameters
        ----------
        ignore_index : int
            Where there is nothing to predict: in gaps, and at the last sample of every sequence
            (the first one if not shifted, also of one that goes on from another row).
        shifted : bool
            The next sample of the same sequence; else the sample itself, for models that shift.

        Returns
        -------
        ndarray of int64
            In the shape of `asarray` if the layout made a dense array, else of `values`. If
            shifted, a sequence that goes on in another row or minibatch is labelled across that
            cut.

        Raises
        ------
        TypeError
            If samples are no integers.
        """
        if self.is_sparse or self.info.shape != () or self.info.dtype.kind not in "iu":
            raise TypeError(
                f"labels are made of integers, stream {self.info.name!r} has samples of "
                f"{self.info.dtype}, shape {self.info.shape}"
            )
        tokens = self.asarray() if self._is_grid else self.values[None]
        beyond = None
        if self._layout.has_rows and shifted:
            beyond = self._stream.beyond(self.info.dtype, (self.num_sequences,))
            beyond = None if beyond is None else self._apply_transforms(beyond)
        return self._labels_of(tokens, beyond, ignore_index, shifted)

    def loss_mask(self, shifted: bool = True) -> NDArray[np.bool_]:
        """Return where `labels` are something to predict: bool, in the same shape."""
        shape = self.mask.shape if self._is_grid else (1, self.num_samples)
        ones = np.ones(self.num_sequences, np.uint8)
        found = self._labels_of(np.broadcast_to(np.uint8(1), shape), ones, 0, shifted)
        return found.astype(np.bool_)

    def _labels_of(
        self, tokens: NDArray[Any], beyond: NDArray[Any] | None, ignore: int, shifted: bool
    ) -> NDArray[np.int64]:
        """Return labels of tokens in rows; `beyond` is what stands behind each piece."""
        make = next_tokens if shifted else same_tokens
        if not self._is_grid:
            mask = np.full(self.num_samples, VALID, np.uint8)
            mask[self.offsets[:-1][self.lengths > 0]] = START
            flat: NDArray[np.int64] = make(tokens, mask[None], ignore)[0]
            return flat
        labels = make(tokens, self.mask, ignore)
        if self._layout.has_rows and shifted:
            self._pieces.end_labels(labels, beyond, ignore)
        elif self._layout.has_rows:
            self._pieces.begin_labels(labels, ignore)
        return labels

    @lazy
    def values(self) -> Any:
        """All samples one behind the other.

        Returns
        -------
        ndarray of `info.dtype`, shape (samples, *sample shape)
            For a sparse stream a SciPy CSR matrix of shape (samples, dimension); for bytes an
            array of ``bytes`` objects.
        """
        if self.is_sparse:
            return self._apply_transforms(self._csr())
        if self.info.is_bytes:
            return self._apply_transforms(self._bytes_objects())
        if self._is_grid:
            return self._apply_transforms(self._grid[self._stream.mask() != GAP])
        shape = (self.num_samples, *self.info.shape)
        return self._apply_transforms(self._stream.values(self.info.dtype, shape))

    @property
    def data(self) -> Any:
        """The same as `values`."""
        return self.values

    def as_sequences(self) -> list[Any]:
        """Return an array (samples, *sample shape) per sequence, or a CSR matrix if sparse."""
        values = self.values
        return [values[begin:end] for begin, end in pairwise(self.offsets.tolist())]

    def asarray(
        self, pad_value: float | None = None, dtype: DTypeLike | None = None
    ) -> NDArray[Any]:
        """Return all sequences as one dense array.

        Parameters
        ----------
        pad_value : number, optional
            What fills the gaps; the layout's by default, which is 0 unless it says otherwise.
        dtype : dtype-like, optional
            Of the result; by default the stream's.

        Returns
        -------
        ndarray, shape (sequences, width, *sample shape)
            Width is that of the longest sequence, rounded up as the layout says, or the
            bucket's. In a layout of rows (rows, row length, *sample shape).
        """
        wanted = self._layout.pad_value_of(self.info.name) if pad_value is None else pad_value
        dense = self._dense(wanted)
        return dense if dtype is None else dense.astype(dtype, copy=False)

    @lazy
    def mask(self) -> NDArray[np.uint8]:
        """Which cells of `asarray` hold data: uint8; 2 start of a sequence, 1 valid, 0 gap."""
        if self._is_grid:
            cells: NDArray[np.uint8] = self._stream.mask()
            return cells
        options = self._batch.options
        width = -(-self.max_seqlen // options.multiple_of) * options.multiple_of
        width = max(width, self._batch.row_length)  # a bucket's
        lengths = self.lengths[:, None]
        place = np.arange(width) - (width - lengths if options.pad_left else 0)
        valid = (place >= 0) & (place < lengths)
        return np.where(valid, np.where(place == 0, START, VALID), GAP).astype(np.uint8)

    def valid_mask(self, dtype: DTypeLike = np.bool_) -> NDArray[Any]:
        """Return 1 in the cells of `asarray` that hold data and 0 in gaps, in any dtype."""
        valid: NDArray[Any] = (self.mask != GAP).astype(dtype)
        return valid

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> NDArray[Any]:
        dense = self.asarray(dtype=dtype)
        return dense.copy() if copy else dense

    def __dlpack__(self, **options: Any) -> Any:
        return self._exported.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device, index = self._exported.__dlpack_device__()
        return int(device), int(index)

    def torch(self, device: object = None, non_blocking: bool = False) -> torch.Tensor:
        """Return `values` (of a padded layout `asarray`) as a tensor, on a CPU without a copy.

        Parameters
        ----------
        device : torch device or str, optional
            Where it is wanted; by default the device that `next_minibatch` was given, or the
            CPU. For a CUDA device the data go through pinned memory.
        non_blocking : bool
            Return before the copy to the device has ended; the pinned memory lives as long as
            it must.
        """
        from sweephand.torch import to_tensor

        return to_tensor(
            self._exported, self._device if device is None else device, non_blocking
        )

    def __len__(self) -> int:
        return self.num_sequences

    def __reduce__(self) -> tuple[Any, ...]:
        batch = self._batch.with_streams([self._number])
        return MinibatchData, (self.info, batch, self._number, self._layout, self._device)

    def __repr__(self) -> str:
        return f"MinibatchData({self.info.name!r}, {self.shape}, {self.info.dtype})"

    @property
    def _exported(self) -> NDArray[Any]:
        if self.info.is_variable:
            kind = "sparse" if self.is_sparse else "bytes"
            raise TypeError(
                f"stream {self.info.name!r} is {kind}; use asarray() or as_sequences()"
            )
        return self.asarray() if self._is_grid else self.values

    @lazy
    def _pieces(self) -> Pieces:
        return pieces_of(self._batch, self._layout)

    @property
    def _capacity(self) -> int | None:
        """How many sequences the boundaries always have entries for."""
        return self._layout.cu_seqlens_capacity if isinstance(self._layout, Packed) else None

    @property
    def _is_grid(self) -> bool:
        return self._stream.is_grid

    @lazy
    def _grid(self) -> NDArray[Any]:
        shape = (self._stream.rows, self._stream.width, *self.info.shape)
        grid: NDArray[Any] = self._stream.values(self.info.dtype, shape)
        return grid

    def _apply_transforms(self, values: Any) -> Any:
        for transform in self.info.transforms:
            count = values.shape[0]
            values = transform(values)
            if values.shape[0] != count:
                raise ValueError(
                    f"a transform of stream {self.info.name!r} must keep the number of "
                    f"samples, it made {values.shape[0]} of {count}"
                )
        return values

    def _bytes_objects(self) -> NDArray[Any]:
        data = self._stream.values(np.dtype(np.uint8), (self._stream.num_elements,)).tobytes()
        starts = self._stream.element_offsets().tolist()
        objects = np.empty(self.num_samples, object)
        objects[:] = [data[begin:end] for begin, end in pairwise(starts)]
        return objects

    def _csr(self) -> Any:
        try:
            from scipy.sparse import csr_matrix
        except ImportError:
            raise ImportError(
                "sparse streams come as SciPy matrices: pip install 'sweephand[scipy]', or "
                "use asarray()"
            ) from None
        data, indices, starts = self._elements()
        return csr_matrix((data, indices, starts), shape=(self.num_samples, *self.info.shape))

    def _elements(self) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]:
        count = self._stream.num_elements
        indices = self._stream.indices()
        if indices is None:  # an empty share never saw a column
            indices = np.empty(0, np.int32)
        return (
            self._stream.values(self.info.dtype, (count,)),
            indices,
            self._stream.element_offsets(),
        )

    def _dense(self, pad_value: float) -> NDArray[Any]:
        if self._is_grid and not self.info.is_variable and not self.info.transforms:
            if pad_value == self._layout.pad_value_of(self.info.name):
                return self._grid
            mask = self.mask.reshape(self.mask.shape + (1,) * len(self.info.shape))
            fill = pad_element(self.info.name, self.info.dtype, pad_value)
            return np.where(mask != GAP, self._grid, fill)
        valid = self.mask != GAP
        values = self._dense_values()
        pad: NDArray[Any] | bytes = b""
        if values.dtype != object:
            pad = pad_element(self.info.name, values.dtype, pad_value)
        dense = np.full(valid.shape + values.shape[1:], pad, values.dtype)
        dense[valid] = values
        return dense

    def _dense_values(self) -> NDArray[Any]:
        if not self.is_sparse:
            return self.values  # type: ignore[no-any-return]
        if self.info.transforms:
            return self.values.toarray()  # type: ignore[no-any-return]
        data, indices, starts = self._elements()
        dense = np.zeros((self.num_samples, *self.info.shape), self.info.dtype)
        rows = np.repeat(np.arange(self.num_samples), np.diff(starts))
        np.add.at(dense, (rows, indices), data)
        return dense


def pieces_of(batch: _core.engine.Batch, layout: Layout) -> Pieces:
    """Return where pieces stand in a layout of rows; AttributeError in another one."""
    if not layout.has_rows:
        raise AttributeError(f"rows come with Packed or TruncatedBPTT, this is {layout!r}")
    return Pieces(batch.cells().reshape(-1, 4), batch.sizes(), batch.num_rows)


def segments_of(found: NDArray[np.int32] | None, layout: Layout) -> NDArray[np.int32]:
    """Return what was found of segments; AttributeError where a layout has none."""
    if found is None:
        raise AttributeError(f"segments come with layout=Packed(...), this is {layout!r}")
    return found


def _repeat_last(boundaries: NDArray[np.int32], capacity: int) -> NDArray[np.int32]:
    """Return boundaries of exactly `capacity` sequences, the last ones empty."""
    found = len(boundaries) - 1
    if found > capacity:
        raise ValueError(
            f"the share has {found} sequences, more than the cu_seqlens_capacity of {capacity}"
        )
    return np.pad(boundaries, (0, capacity - found), mode="edge")
