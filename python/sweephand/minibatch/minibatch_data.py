"""One stream of a minibatch: values, dense arrays, boundaries, labels and tensors."""

from __future__ import annotations

from copy import copy
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand import _core
from sweephand.corpus.calls import copied
from sweephand.corpus.casts import as_dtype, cast
from sweephand.corpus.objects import parsed
from sweephand.corpus.streams import StreamInfo
from sweephand.layouts import Layout, pad_element
from sweephand.minibatch.contents import Contents
from sweephand.minibatch.labels import LabelKind, check_tokens, spread_weights
from sweephand.minibatch.segments import (
    PADDING,
    START,
    Segments,
    SequenceParts,
    fill_gaps,
    mask_of_rows,
    repeat_last,
)

if TYPE_CHECKING:
    import torch


_MOST_INT32 = 2**31 - 1
_DIMENSIONS = 64  # of streams, whose empty matrices are kept


class MinibatchData:
    """One stream of a minibatch. Its arrays own their data and stay valid and unchanged.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(3), np.arange(2)]})
    >>> data = sh.MinibatchSource(corpus, randomize=False).next_minibatch(5)["tokens"]
    >>> data.values, data.offsets, data.lengths
    (array([0, 1, 2, 0, 1]), array([0, 3, 5]), array([3, 2]))
    >>> data.asarray(pad_value=-1)
    array([[ 0,  1,  2],
           [ 0,  1, -1]])
    """

    def __init__(
        self, batch: _core.engine.Batch, contents: Contents, device: object, key: Any
    ) -> None:
        self._batch, self._contents, self._device = batch, contents, device
        self._number, self.info = contents.keys[key]
        self._stream = batch.stream(self._number)

    @property
    def _layout(self) -> Layout:
        return self._contents.layout

    @property
    def _array(self) -> NDArray[Any]:
        """The samples, cells of a grid, or elements of variable samples, as they are stored."""
        info = self.info
        array: NDArray[Any] = self._stream.values(
            info.stored_dtype, () if info.is_variable else info.shape
        )
        return array

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

        ValueError if the lengths of the stream are not known before it is read.
        """
        batch, info = self._batch, self.info
        if info.is_sized:
            return batch.num_samples
        if info.is_single:
            return batch.num_sequences
        self._check_all_here()
        return self.num_samples

    def _check_all_here(self) -> None:
        """Raise ValueError unless the share holds all of the minibatch."""
        batch = self._batch
        if batch.share_size + len(batch.banned()) != batch.num_sequences:
            raise ValueError(
                f"how many samples the other workers have of stream {self.info.name!r} is not "
                "known before it is read: say that it defines the size, StreamDef(..., "
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
        if parts is None:
            return self._stream.longest
        return int(np.diff(parts.offsets).max(initial=0))

    @property
    def shape(self) -> tuple[int, ...]:
        """(sequences, longest sequence, *sample shape)."""
        return (self.num_sequences, self._stream.longest, *self.info.shape)

    @property
    def dense_shape(self) -> tuple[int, ...]:
        """The shape of `asarray`; nothing is made for it."""
        if self.info.is_single:
            return (self.num_sequences, *self.info.shape)
        return (*self.mask.shape, *self.info.shape)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The begins of sequences in `values`, and the end: int64, shape (sequences + 1,)."""
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

        With ``Packed(cu_seqlens_capacity=n)`` always n + 1 entries: the last one repeats.
        ValueError if there are more sequences, OverflowError if there are 2^31 samples or more.
        """
        if self.num_samples > np.iinfo(np.int32).max:
            raise OverflowError(f"{self.num_samples} samples do not fit int32 offsets")
        parts = self.sequence_parts
        offsets = self.offsets if parts is None else parts.offsets
        return repeat_last(offsets, self._layout.cu_seqlens_capacity)

    @property
    def dense_cu_seqlens(self) -> NDArray[np.int32]:
        """Boundaries in ``asarray().reshape(-1)`` of a layout of rows, for static shapes.

        The padding of a row is a sequence of its own, so that every cell belongs to one; as it
        may be the longest, take the row length for the longest. int32, shape (sequences +
        padded rows + 1,); with ``Packed(cu_seqlens_capacity=n)`` always n + rows + 1 entries:
        the last one repeats.
        """
        rows, width = self._batch.num_rows, self._batch.row_length
        boundaries = np.union1d(np.arange(rows + 1) * width, self._in_rows.ends)
        return repeat_last(boundaries, self._layout.cu_seqlens_capacity, rows)

    @property
    def segment_ids(self) -> NDArray[np.int32]:
        """Which sequence of its row every cell holds: `Minibatch.segment_ids`."""
        if self.sequence_parts is not None and self._stream.is_grid:
            return self._segments.numbers(self.mask.shape)
        return marks_of(self._batch.segment_ids(), self._layout)

    @property
    def position_ids(self) -> NDArray[np.int32]:
        """The place of every cell in its sequence: `Minibatch.position_ids`."""
        if self.sequence_parts is not None and self._stream.is_grid:
            return self._segments.positions(self.mask.shape)
        return marks_of(self._batch.position_ids(), self._layout)

    @cached_property
    def mask(self) -> NDArray[np.uint8]:
        """Which cells of `asarray` hold data: uint8; 2 start of a sequence, 1 valid, 0 gap."""
        if self.info.is_single:
            return np.full(self.num_sequences, START, np.uint8)
        if self._stream.is_grid:
            cells: NDArray[np.uint8] = self._stream.mask()
            return cells
        if self.info.carried:
            return mask_of_rows(self.lengths, self.max_seqlen, pad_left=False)
        options = self._batch.options
        width = -(-self._stream.longest // options.multiple_of) * options.multiple_of
        width = max(width, self._batch.row_length)  # a bucket's
        return mask_of_rows(self.lengths, width, pad_left=options.pad_left)

    def valid_mask(self, dtype: DTypeLike = np.bool_) -> NDArray[Any]:
        """Return 1 in the cells of `asarray` that hold data and 0 in gaps, in any dtype."""
        valid: NDArray[Any] = (self.mask != PADDING).astype(dtype)
        return valid

    @property
    def _in_rows(self) -> Segments:
        """The segments in the cells of a layout of rows."""
        return self._by_parts(Segments.of_rows(self._batch, self._layout))

    @cached_property
    def _segments(self) -> Segments:
        """The segments in the cells of `asarray` if the layout makes it, else in `values`."""
        if not self._stream.is_grid:
            return self._by_parts(Segments(self.offsets[:-1], self.lengths))
        if self._layout.has_rows:
            return self._in_rows
        sizes, (rows, width) = self.lengths, self.mask.shape
        gaps = width - sizes if self._batch.options.pad_left else 0
        return self._by_parts(Segments(np.arange(rows) * width + gaps, sizes))

    def _by_parts(self, segments: Segments) -> Segments:
        parts = self.sequence_parts
        return segments if parts is None else segments.split(parts)

    @property
    def is_sparse(self) -> bool:
        """True if samples come as indices and values."""
        return self.info.is_sparse

    @property
    def is_padded(self) -> bool:
        """True if the layout made one dense array of it: `asarray` then costs nothing."""
        return self._stream.is_grid

    def labels(self, ignore_index: int = -100, shifted: bool = True) -> NDArray[np.int64]:
        """Return the labels of every sample, never across a border.

        Parameters
        ----------
        ignore_index : int
            Where there is nothing to predict: in gaps, and at the last sample of every sequence
            (the first one if not shifted, also of one that goes on from another row).
        shifted : bool
            True: the next sample of the same sequence. False: the sample itself, for models
            that shift.

        Returns
        -------
        ndarray of int64
            In the shape of `asarray` if the layout made a dense array, else of `values`. If
            shifted, a sequence that goes on in another row or minibatch is labelled across that
            cut. TypeError if samples are no integers.
        """
        check_tokens(self.info)
        labels = self._labels_of(*self._tokens(shifted), ignore_index, shifted)
        if self.info.definition.loss_mask is not None:
            labels[~self.loss_mask(shifted)] = ignore_index
        return labels

    def _tokens(self, shifted: bool) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return all samples, and those that come after pieces that go on."""
        tokens = self.asarray() if self._stream.is_grid else self.values
        return tokens, self._beyond if shifted else None

    @cached_property
    def sequence_parts(self) -> SequenceParts | None:
        """The parts of the sequences, if they have any."""
        told = self._beside(self.info.definition.parts, "the parts of its sequences")
        return None if told is None else SequenceParts(told.values, told.offsets)

    def _beside(self, name: str | None, what: str) -> MinibatchData | None:
        """Return the stream of a name that this one needs."""
        if name is None:
            return None
        for key, (_, info) in self._contents.keys.items():
            if info.name == name:
                return type(self)(self._batch, self._contents, self._device, key)
        raise ValueError(
            f"stream {self.info.name!r} needs {what}, {name!r}: ask for that stream, too"
        )

    def global_num_labels(self, shifted: bool = True) -> int:
        """Return the number of labels that `labels` gives over all workers, as planned.

        Banned sequences are not counted; those that are skipped as damaged are. TypeError if
        samples are no integers; ValueError if lengths are not known before they are read.
        """
        check_tokens(self.info)
        info, counted = self.info, self._batch.counted
        if info.is_single:
            return 0
        if info.is_masked:
            return counted.labels if shifted else counted.own_labels
        if not (info.is_sized or self._layout.has_rows):  # where all have equal lengths
            self._check_all_here()
            return int(np.count_nonzero(self.loss_mask(shifted)))
        if shifted and not info.broadcast:
            return LabelKind.NEXT_TOKENS.count(counted)
        return counted.samples - counted.pieces

    def loss_mask(self, shifted: bool = True) -> NDArray[np.bool_]:
        """Return where `labels` are something to predict: bool, in the same shape."""
        mask = self._beside(self.info.definition.loss_mask, "its loss mask")
        beyond: NDArray[Any] | None
        if mask is None:
            shape = self.mask.shape if self._stream.is_grid else (self.num_samples,)
            is_on = np.broadcast_to(np.True_, shape)
            # Nothing is known of the sample after a piece of a stream that is broadcast.
            beyond = None if self.info.broadcast else np.ones(self.num_sequences, np.bool_)
        else:  # which may be between 0 and 1
            values, beyond = mask._tokens(shifted)
            is_on, beyond = values != 0, None if beyond is None else beyond != 0
        return self._labels_of(is_on, beyond, 0, shifted).astype(np.bool_)

    def label_weights(self, shifted: bool = True) -> NDArray[np.floating[Any]]:
        """Return the weight of every label: in the same shape, 0 where there is none.

        It is that of ``StreamDef(label_weights=...)``, in the dtype of that stream, else 1; of
        no floats in float32. Over all workers they sum to `Minibatch.global_label_weight`.
        """
        is_label = self.loss_mask(shifted)
        weights = self._beside(self.info.definition.label_weights, "the weights of its labels")
        if weights is None:
            return is_label.astype(np.float32)
        values = weights.values
        if values.dtype.kind != "f":
            values = values.astype(np.float32)
        cells = spread_weights(values, weights.lengths, self.lengths)
        if self._stream.is_grid:
            cells = fill_gaps(cells, self.mask, 0)
        # A piece that goes on has its one weight, or that of the sample after it.
        beyond = values if weights.info.is_single else weights._beyond
        found = self._labels_of(cells, beyond if shifted else None, 0, shifted)
        return np.where(is_label, found, np.zeros_like(found))

    def _labels_of(
        self,
        tokens: NDArray[Any],
        beyond: NDArray[Any] | None,
        ignore: int,
        shifted: bool,
    ) -> NDArray[Any]:
        is_grid = self._stream.is_grid
        valid = self.mask != PADDING if is_grid else np.broadcast_to(np.True_, tokens.shape)
        return self._segments.labels(tokens, valid, ignore, shifted=shifted, beyond=beyond)

    @property
    def _beyond(self) -> NDArray[Any] | None:
        """The next samples after pieces that go on, or None if none does."""
        shape = (self.num_sequences, *self.info.shape)
        beyond: NDArray[Any] | None = self._stream.beyond(self.info.dtype, shape)
        return None if beyond is None else self._apply_transforms(beyond)

    @cached_property
    def values(self) -> Any:
        """All samples, sequence after sequence: `info.dtype`, shape (samples, *sample shape).

        For a sparse stream a SciPy CSR matrix of shape (samples, dimension); for bytes an array
        of ``bytes``, for objects an array of dicts, lists and what else they are.
        """
        info, values = self.info, self._array
        if info.is_sparse:
            values = sparse_matrix(self._stream, info, values)
        elif info.is_bytes:
            values = byte_strings(self._stream, values)
            if info.is_object:
                values = parsed(values)
        elif self._stream.is_grid:
            values = values[self.mask != PADDING]
        return self._apply_transforms(values)

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
        """Return all sequences as one dense array, with `pad_value` or the layout's in gaps.

        Returns
        -------
        ndarray, shape (sequences, width, *sample shape)
            Width is that of the longest sequence, rounded up by the layout, or the
            bucket's. In a layout of rows (rows, row length, *sample shape). In every layout
            (sequences, *sample shape) where all sequences of the corpus have one sample of the
            stream: ``info.is_single``.
        """
        dense = self._dense(pad_value)
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> NDArray[Any]:
        dense = self.asarray(dtype=dtype)
        return dense.copy() if copy else dense

    def __dlpack__(self, **options: Any) -> Any:
        return self.exported.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device, index = self.exported.__dlpack_device__()
        return int(device), int(index)

    def torch(
        self, device: object = None, non_blocking: bool = False, dtype: object = None
    ) -> torch.Tensor:
        """Return `values` (of a padded layout `asarray`) as a tensor, on a CPU without a copy.

        Parameters
        ----------
        device, non_blocking
            As of `Minibatch.torch`.
        dtype : torch.dtype, NumPy dtype or str, optional
            Another type than the stream's, by the exact cast of ``StreamDef(dtype=...)``:
            uint16 tokens, with which torch computes little, as int64.
        """
        from sweephand.torch import to_tensor

        array = self.exported if dtype is None else cast(self.exported, as_dtype(dtype))
        return to_tensor(array, self._device if device is None else device, non_blocking)

    def __len__(self) -> int:
        return self.num_sequences

    def __reduce__(self) -> tuple[Any, ...]:
        streams = {self.info.name: (self._number, self.info)}
        for name in self.info.definition.beside.values():
            if (other := self._beside(name, "another stream")) is not None:
                streams[other.info.name] = other._number, other.info
        batch, contents = self._contents.only(self._batch, streams)
        return type(self), (batch, contents, self._device, self.info.name)

    def __repr__(self) -> str:
        return f"MinibatchData({self.info.name!r}, {self.brief})"

    @property
    def brief(self) -> str:
        """Its dtype and dense shape in few characters, such as ``int64 (32, 7)``."""
        is_dense = self.info.is_single or self._stream.is_grid
        return f"{self.info.element_name} {self.dense_shape if is_dense else self.shape}"

    @property
    def exported(self) -> NDArray[Any]:
        """The array that ``__array__`` and DLPack export; TypeError if there is none."""
        if self.info.is_variable:
            if self.info.is_object:
                raise TypeError(
                    f"stream {self.info.name!r} holds Python objects, of which there is no "
                    "array of numbers: make one by corpus.map, or take its values"
                )
            kind = "sparse" if self.is_sparse else "bytes"
            raise TypeError(
                f"stream {self.info.name!r} is {kind}; use asarray() or as_sequences()"
            )
        return self.asarray() if self._stream.is_grid else self.values

    def _apply_transforms(self, values: Any) -> Any:
        for transform in self.info.definition.transforms:
            count = values.shape[0]
            values = copied(transform(values))
            if values.shape[0] != count:
                raise ValueError(
                    f"a transform of stream {self.info.name!r} must keep the number of "
                    f"samples, it made {values.shape[0]} of {count}"
                )
        return values

    def _dense(self, pad_value: float | None) -> NDArray[Any]:
        by_layout = self._layout.pad_value_of(self.info.name)
        if (
            self._stream.is_grid
            and not self.info.is_variable
            and not self.info.definition.transforms
        ):
            if pad_value is None or pad_value == by_layout:
                return self._array
            mask = self.mask.reshape(self.mask.shape + (1,) * len(self.info.shape))
            fill = pad_element(self.info.name, self.info.dtype, pad_value)
            return np.where(mask != PADDING, self._array, fill)
        values = self._dense_values()
        if self.info.is_single:
            return values
        if values.dtype == object:
            return fill_gaps(values, self.mask, b"")
        wanted = by_layout if pad_value is None else pad_value
        return fill_gaps(values, self.mask, pad_element(self.info.name, values.dtype, wanted))

    def _dense_values(self) -> NDArray[Any]:
        if not self.is_sparse:
            return self.values  # type: ignore[no-any-return]
        if self.info.definition.transforms:
            return self.values.toarray()  # type: ignore[no-any-return]
        return dense_rows(self._stream, self.info, self._array)


def marks_of(found: NDArray[np.int32] | None, layout: Layout) -> NDArray[np.int32]:
    """Return the marks of cells; AttributeError where a layout has none."""
    if found is None:
        raise AttributeError(f"segments come with layout=Packed(...), this is {layout!r}")
    return found


def byte_strings(
    stream: _core.engine.StreamBatch, elements: NDArray[np.uint8]
) -> NDArray[np.object_]:
    """Return every sample as ``bytes``: an array of objects."""
    data = elements.tobytes()
    objects = np.empty(stream.num_samples, object)
    ends = pairwise(stream.element_offsets().tolist())
    objects[:] = [data[begin:end] for begin, end in ends]
    return objects


def sparse_matrix(
    stream: _core.engine.StreamBatch, info: StreamInfo, elements: NDArray[Any]
) -> Any:
    """Return every sample as a row of a SciPy CSR matrix; ImportError without SciPy."""
    shape = (stream.num_samples, *info.shape)
    try:
        empty = _empty_matrix(info.shape)
    except ImportError:
        raise ImportError(
            "sparse streams come as SciPy matrices: pip install 'sweephand[scipy]', or "
            "use asarray()"
        ) from None
    indices, starts = _places(stream)
    matrix = copy(empty)  # SciPy's checks of the arrays are already done
    matrix._shape = shape  # its setter reshapes, and its constructor takes five times as long
    if max(len(elements), *shape) > _MOST_INT32 or matrix.shape != shape:
        return type(empty)((elements, indices, starts), shape=shape)
    matrix.data, matrix.indices, matrix.indptr = elements, indices, starts.astype(np.int32)
    return matrix


@lru_cache(_DIMENSIONS)
def _empty_matrix(dimension: tuple[int, ...]) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((0, *dimension))


def dense_rows(
    stream: _core.engine.StreamBatch, info: StreamInfo, elements: NDArray[Any]
) -> NDArray[Any]:
    """Return every sparse sample as a dense row; elements of one column are added."""
    indices, starts = _places(stream)
    dense = np.zeros((stream.num_samples, *info.shape), info.dtype)
    rows = np.repeat(np.arange(stream.num_samples), np.diff(starts))
    np.add.at(dense, (rows, indices), elements)
    return dense


def _places(
    stream: _core.engine.StreamBatch,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the column of every element, and where each sample's begin."""
    indices = stream.indices()
    if indices is None:  # an empty share never saw a column
        indices = np.empty(0, np.int32)
    return indices, stream.element_offsets()
