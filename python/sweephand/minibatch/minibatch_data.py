"""One stream of a minibatch: values, dense arrays, labels and tensors."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand.corpus.casts import as_dtype, cast
from sweephand.corpus.objects import parsed
from sweephand.corpus.own_values import own_result
from sweephand.layouts import pad_element
from sweephand.minibatch.boundaries import Boundaries
from sweephand.minibatch.label_count import LabelKind, are_tokens
from sweephand.minibatch.labels import next_tokens, same_tokens
from sweephand.minibatch.lazy import lazy
from sweephand.minibatch.mask import GAP, fill_gaps, mask_of_values
from sweephand.minibatch.sequence_parts import SequenceParts

if TYPE_CHECKING:
    import torch

    from sweephand.minibatch.served import Parts

_NO_LABEL = -(2**63)


class MinibatchData(Boundaries):
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

    @property
    def is_sparse(self) -> bool:
        """True if samples come as indices and values."""
        return self.info.is_sparse

    @property
    def is_padded(self) -> bool:
        """True if the layout made one dense array of it: `asarray` then costs nothing."""
        return self._is_grid

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
            cut.

        Raises
        ------
        TypeError
            If samples are no integers.
        """
        self._check_tokens()
        parts = self.sequence_parts
        labels = self._labels_of(*self._tokens(shifted), ignore_index, shifted, parts)
        mask = self._loss_mask_stream
        if mask is not None:
            # Labels are integers, and a mask may be between 0 and 1.
            on, beyond = (None if one is None else one != 0 for one in mask._tokens(shifted))
            assert on is not None
            labels[mask._labels_of(on, beyond, 0, shifted, parts) == 0] = ignore_index
        return labels

    def _tokens(self, shifted: bool) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return all samples, and those that come after pieces that go on."""
        tokens = self.asarray() if self._is_grid else self.values
        return tokens, self._beyond if shifted else None

    @property
    def _loss_mask_stream(self) -> MinibatchData | None:
        """The stream that masks the loss, with one entry per sample."""
        return self._beside(self.info.loss_mask, "its loss mask")

    @lazy
    def sequence_parts(self) -> SequenceParts | None:
        """Return the parts of the sequences, if they have any."""
        told = self._beside(self.info.parts, "the parts of its sequences")
        return None if told is None else SequenceParts(told.values, told.offsets)

    def _beside(self, name: str | None, what: str) -> MinibatchData | None:
        """Return the stream of a name that this one needs."""
        if name is None:
            return None
        for key, (_, info) in self._minibatch_parts[1].keys.items():
            if info.name == name:
                return type(self)(*self._minibatch_parts, key)
        raise ValueError(
            f"stream {self.info.name!r} needs {what}, {name!r}: ask for that stream, too"
        )

    def global_num_labels(self, shifted: bool = True) -> int:
        """Return the number of labels that `labels` gives over all workers, as planned.

        No communication is needed. Banned sequences are not counted; those that are skipped as
        damaged are.

        Raises
        ------
        TypeError
            If samples are no integers.
        ValueError
            If the lengths of the stream are not known before it is read.
        """
        self._check_tokens()
        info, counted = self.info, self._batch.counted
        if info.is_single:
            return 0
        if info.loss_mask is not None or info.parts is not None:
            return counted.labels if shifted else counted.own_labels
        if not (info.is_sized or self._layout.has_rows):  # where all have equal lengths
            if self._is_all:
                return int(np.count_nonzero(self.loss_mask(shifted)))
            raise self._unknown_lengths()
        if shifted and not info.broadcast:
            return LabelKind.NEXT_TOKENS.count(counted)
        return counted.samples - counted.pieces

    def _check_tokens(self) -> None:
        if self.info.carried:
            raise TypeError(
                f"stream {self.info.name!r} is carried beside the tokens, and has no next ones"
            )
        if not are_tokens(self.info):
            raise TypeError(
                f"labels are made of integers, stream {self.info.name!r} has samples of "
                f"{self.info.dtype}, shape {self.info.shape}"
            )

    def loss_mask(self, shifted: bool = True) -> NDArray[np.bool_]:
        """Return where `labels` are something to predict: bool, in the same shape."""
        if self.info.loss_mask is not None:
            is_label: NDArray[np.bool_] = self.labels(_NO_LABEL, shifted) != _NO_LABEL
            return is_label
        shape = self.mask.shape if self._is_grid else (self.num_samples,)
        tokens = np.broadcast_to(np.uint8(1), shape)
        # Nothing is known of the sample after a piece of a stream that is broadcast.
        beyond = None if self.info.broadcast else np.ones(self.num_sequences, np.uint8)
        labels = self._labels_of(tokens, beyond, 0, shifted, self.sequence_parts)
        return labels.astype(np.bool_)

    def _labels_of(
        self,
        tokens: NDArray[Any],
        beyond: NDArray[Any] | None,
        ignore: int,
        shifted: bool,
        parts: SequenceParts | None = None,
    ) -> NDArray[np.int64]:
        mask = self.mask if self._is_grid else mask_of_values(self.offsets)
        if parts is not None:  # which are whole, so that nothing goes on
            mask, beyond = parts.mark(mask), None
        cells = tokens.reshape(mask.shape)
        pieces = self._pieces if self._layout.has_rows and self._is_grid else None
        if shifted:
            labels = next_tokens(cells, mask, ignore, pieces, beyond)
        else:
            labels = same_tokens(cells, mask, ignore, pieces)
        return labels.reshape(tokens.shape)

    @property
    def _beyond(self) -> NDArray[Any] | None:
        """The next samples after pieces that go on, or None if none does."""
        shape = (self.num_sequences, *self.info.shape)
        beyond: NDArray[Any] | None = self._stream.beyond(self.info.dtype, shape)
        return None if beyond is None else self._apply_transforms(beyond)

    @lazy
    def values(self) -> Any:
        """All samples, sequence after sequence.

        Returns
        -------
        ndarray of `info.dtype`, shape (samples, *sample shape)
            For a sparse stream a SciPy CSR matrix of shape (samples, dimension); for bytes an
            array of ``bytes``, for objects an array of dicts, lists and what else they are.
        """
        if self.is_sparse:
            from sweephand.minibatch.elements import sparse_matrix

            values = sparse_matrix(self._stream, self.info, self._array)
        elif self.info.is_bytes:
            from sweephand.minibatch.elements import byte_strings

            values = byte_strings(self._stream, self._array)
            if self.info.is_object:
                values = parsed(values)
        elif self._is_grid:
            values = self._array[self.mask != GAP]
        else:
            values = self._array
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
        """Return all sequences as one dense array.

        Parameters
        ----------
        pad_value : number, optional
            The value of gaps; by default the layout's, which is 0 unless it is set there.
        dtype : dtype-like, optional
            Of the result; by default the stream's.

        Returns
        -------
        ndarray, shape (sequences, width, *sample shape)
            Width is that of the longest sequence, rounded up by the layout, or the
            bucket's. In a layout of rows (rows, row length, *sample shape). In every layout
            (sequences, *sample shape) where all sequences of the corpus have one sample of the
            stream: ``info.is_single``.
        """
        dense = self._laid_out if pad_value is None else None
        if dense is None:
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
        device : torch device or str, optional
            Where it is wanted; by default the device that `next_minibatch` was given, or the
            CPU. For a CUDA device the data go through pinned memory.
        non_blocking : bool
            Return before the copy to the device has ended; the pinned memory lives as long as
            it must.
        dtype : torch.dtype, NumPy dtype or str, optional
            Another type than the stream's, by the exact cast of ``StreamDef(dtype=...)``:
            uint16 tokens, with which torch computes little, as int64.

        Raises
        ------
        ValueError
            If a value would be lost in that type.
        """
        from sweephand.torch.minibatch.tensor import to_tensor

        array = self.exported if dtype is None else cast(self.exported, as_dtype(dtype))
        return to_tensor(array, self._device if device is None else device, non_blocking)

    def __len__(self) -> int:
        return self.num_sequences

    def __reduce__(self) -> tuple[Any, ...]:
        batch, contents, device = self._minibatch_parts
        streams = {self.info.name: (self._number, self.info)}
        for name in {self.info.loss_mask, self.info.parts} - {None}:
            if (other := self._beside(name, "another stream")) is not None:
                streams[other.info.name] = other._number, other.info
        batch, contents = contents.only(batch, streams)
        return type(self), (batch, contents, device, self.info.name)

    def __repr__(self) -> str:
        return f"MinibatchData({self.info.name!r}, {self.brief})"

    @property
    def brief(self) -> str:
        """Its dtype and dense shape in few characters, such as ``int64 (32, 7)``."""
        sparse = "sparse " if self.is_sparse else ""
        return f"{sparse}{self.info.element_name} {self._brief_shape}"

    @property
    def _brief_shape(self) -> tuple[int, ...]:
        if self.info.is_single or self._is_grid:
            return self.dense_shape
        return self.shape

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
        return self.asarray() if self._is_grid else self.values

    def _apply_transforms(self, values: Any) -> Any:
        for transform in self.info.transforms:
            count = values.shape[0]
            values = own_result(transform, values)
            if values.shape[0] != count:
                raise ValueError(
                    f"a transform of stream {self.info.name!r} must keep the number of "
                    f"samples, it made {values.shape[0]} of {count}"
                )
        return values

    def _dense(self, pad_value: float | None) -> NDArray[Any]:
        by_layout = self._layout.pad_value_of(self.info.name)
        if self._is_grid and not self.info.is_variable and not self.info.transforms:
            if pad_value is None or pad_value == by_layout:
                return self._array
            mask = self.mask.reshape(self.mask.shape + (1,) * len(self.info.shape))
            fill = pad_element(self.info.name, self.info.dtype, pad_value)
            return np.where(mask != GAP, self._array, fill)
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
        if self.info.transforms:
            return self.values.toarray()  # type: ignore[no-any-return]
        from sweephand.minibatch.elements import dense_rows

        return dense_rows(self._stream, self.info, self._array)


def parts_of(mapping: object) -> Parts:
    """Return the parts of the minibatch whose data a mapping holds."""
    data = list(mapping.values()) if isinstance(mapping, Mapping) else []
    found = [one._minibatch_parts for one in data if isinstance(one, MinibatchData)]
    if not found or len(found) < len(data) or any(one[0] is not found[0][0] for one in found):
        raise TypeError("a minibatch comes from a source, or is made of all data of another")
    return found[0]
