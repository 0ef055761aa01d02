"""Minibatches cut into sub-minibatches, whose gradients add up to those of the whole."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand.layouts import TruncatedBPTT
from sweephand.minibatch.data import MinibatchData
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.pieces import Pieces


def split(
    minibatch: Mapping[Any, Any], num_parts: int, *, is_padded: bool = False
) -> Sequence[Mapping[Any, Any]]:
    """Cut a minibatch of a source into parts with equal numbers of rows, up to one.

    Parameters
    ----------
    minibatch : Minibatch
        Packed rows stay whole; in other layouts each sequence is a row.
    num_parts : int
        Where there are fewer rows, there is a part for each of them.
    is_padded : bool
        Whether there are so many parts all the same: the last ones are empty then.

    Returns
    -------
    list of Minibatch
        Each says of its sequences what a minibatch of their own would say; what is said of the
        global minibatch stays that.

    Raises
    ------
    TypeError
        If it is no minibatch of a source, or its rows go on in the next minibatch, in which
        they must stand where they stood.
    """
    if num_parts == 1:
        return [minibatch]
    if not isinstance(minibatch, Minibatch):
        raise TypeError(
            f"only minibatches of a source can be cut, this is a {type(minibatch).__name__}"
        )
    if isinstance(minibatch._layout, TruncatedBPTT):
        raise TypeError(f"minibatches of the layout {minibatch._layout} cannot be cut")
    has_rows = minibatch._layout.has_rows
    num_rows = minibatch._batch.num_rows if has_rows else minibatch.num_sequences
    borders = _borders(num_rows, num_parts, is_padded=is_padded)
    if not has_rows:
        return [Part(minibatch, rows, rows) for rows in borders]
    row_of_sequence = minibatch._batch.cells().reshape(-1, 4)[:, 0]
    return [
        Part(minibatch, slice(*np.searchsorted(row_of_sequence, [rows.start, rows.stop])), rows)
        for rows in borders
    ]


def _borders(count: int, num_parts: int, *, is_padded: bool) -> list[slice]:
    filled = max(1, min(count, num_parts))
    borders = [i * count // filled for i in range(filled + 1)]
    if is_padded:
        borders += [count] * (num_parts - filled)
    return [slice(begin, end) for begin, end in pairwise(borders)]


class Part(Minibatch):
    """Some rows of a minibatch; what is said of the global minibatch stays that."""

    __slots__ = ("_rows", "_sequences", "_whole")

    def __init__(self, whole: Minibatch, sequences: slice, rows: slice) -> None:
        super().__init__(whole._batch, whole._keys, whole._layout, whole._ids, whole._device)
        self._sequences = sequences
        self._rows = rows
        self._whole = whole

    def _make(self, key: Any) -> MinibatchData:
        return PartData(self._whole[key], self._sequences, self._rows)

    @property
    def num_sequences(self) -> int:
        """Sequences in this part."""
        return int(self._sequences.stop - self._sequences.start)

    @property
    def num_samples(self) -> int:
        """Samples in this part, in the size-defining stream."""
        return int(self._batch.sizes()[self._sequences].sum())

    @property
    def ids(self) -> list[str]:
        """The id of every sequence of the part."""
        return super().ids[self._sequences]

    @property
    def fill_ratio(self) -> float:
        """Samples of the part over the cells of its dense arrays; 1.0 if it has no gaps."""
        shapes = [data.mask.shape for data in self.values() if data.is_padded]
        cells = max((rows * width for rows, width in shapes), default=0)
        return self.num_samples / cells if cells else 1.0

    @property
    def segment_ids(self) -> NDArray[np.int32]:
        """Which sequence of its row every cell holds, as `Minibatch.segment_ids`."""
        return self._whole.segment_ids[self._rows]

    @property
    def position_ids(self) -> NDArray[np.int32]:
        """Where in its sequence every cell is, as `Minibatch.position_ids`."""
        return self._whole.position_ids[self._rows]

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where sequences begin in rows, as `Minibatch.starts`."""
        return self._whole.starts[self._sequences]

    @property
    def row_costs(self) -> NDArray[np.int64]:
        """What attention costs in each row, as `Minibatch.row_costs`."""
        return self._whole.row_costs[self._rows]


class PartData(MinibatchData):
    """One stream of some rows of a minibatch: views of the whole."""

    def __init__(self, whole: MinibatchData, sequences: slice, rows: slice) -> None:
        super().__init__(whole.info, whole._batch, whole._stream, whole._layout, whole._device)
        self._whole = whole
        self._sequences = sequences
        self._rows = rows

    @property
    def num_sequences(self) -> int:
        """Sequences in this part."""
        return int(self._sequences.stop - self._sequences.start)

    @property
    def num_samples(self) -> int:
        """Samples of this stream in this part."""
        return int(self.offsets[-1])

    @property
    def max_seqlen(self) -> int:
        """Samples of the longest sequence; 0 in an empty part."""
        return int(self.lengths.max(initial=0))

    @property
    def dense_shape(self) -> tuple[int, ...]:
        """The shape of `asarray`."""
        return (*self.mask.shape, *self.info.shape)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where sequences begin in `values`, and the end: int64, shape (sequences + 1,)."""
        absolute = self._whole.offsets[self._sequences.start : self._sequences.stop + 1]
        offsets: NDArray[np.int64] = absolute - absolute[0]
        return offsets

    @cached_property
    def values(self) -> Any:
        """All samples of the part one behind the other, as `MinibatchData.values`."""
        return self._of_samples(self._whole.values)

    def asarray(
        self, pad_value: float | None = None, dtype: DTypeLike | None = None
    ) -> NDArray[Any]:
        """Return the rows as one dense array, as `MinibatchData.asarray`."""
        return self._of_rows(self._whole.asarray(pad_value, dtype))

    @cached_property
    def mask(self) -> NDArray[np.uint8]:
        """Which cells of `asarray` hold data: uint8; 2 start of a sequence, 1 valid, 0 gap."""
        return self._of_rows(self._whole.mask)

    @property
    def segment_ids(self) -> NDArray[np.int32]:
        """Which sequence of its row every cell holds."""
        return self._whole.segment_ids[self._rows]

    @property
    def position_ids(self) -> NDArray[np.int32]:
        """Where in its sequence every cell is."""
        return self._whole.position_ids[self._rows]

    def labels(self, ignore_index: int = -100, shifted: bool = True) -> NDArray[np.int64]:
        """Return what a model is to predict, as `MinibatchData.labels`."""
        labels = self._whole.labels(ignore_index, shifted)
        return self._of_rows(labels) if self._is_grid else self._of_samples(labels)

    def loss_mask(self, shifted: bool = True) -> NDArray[np.bool_]:
        """Return where `labels` are something to predict: bool, in the same shape."""
        mask = self._whole.loss_mask(shifted)
        return self._of_rows(mask) if self._is_grid else self._of_samples(mask)

    @property
    def _pieces(self) -> Pieces:
        whole = self._whole._pieces
        cells = whole.cells[self._sequences].copy()
        cells[:, 0] -= np.uint32(self._rows.start)
        num_rows = self._rows.stop - self._rows.start
        return Pieces(cells, whole.sizes[self._sequences], num_rows)

    def _of_samples(self, found: Any) -> Any:
        begin, end = self._whole.offsets[[self._sequences.start, self._sequences.stop]]
        return found[begin:end]

    def _of_rows(self, found: NDArray[Any]) -> NDArray[Any]:
        return found[self._rows, self._columns]

    @cached_property
    def _columns(self) -> slice:
        """The columns of the whole's dense arrays that the part's have."""
        width = self._whole.mask.shape[1]
        if self._layout.has_rows or self._batch.row_length:  # that of a row, or of a bucket
            return slice(0, width)
        options = self._layout.assemble_options()
        own = -(-self.max_seqlen // options.multiple_of) * options.multiple_of
        return slice(width - own, width) if options.pad_left else slice(0, own)
