"""Minibatches cut into sub-minibatches, whose gradients add up to those of the whole."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sweephand.layouts import Frames, Padded, Ragged
from sweephand.minibatch import Minibatch
from sweephand.minibatch_data import MinibatchData


def split(minibatch: Mapping[Any, Any], num_parts: int) -> Sequence[Mapping[Any, Any]]:
    """Cut a minibatch of a source into parts with equal numbers of sequences, up to one.

    Parameters
    ----------
    minibatch : Minibatch
        A ragged or padded one.
    num_parts : int
        Where there are fewer sequences, the first parts are empty.

    Returns
    -------
    list of Mapping
        Each has the streams and ``num_sequences``, ``num_samples``, ``ids`` of its part.

    Raises
    ------
    TypeError
        If it is no minibatch of a source, or of another layout.
    """
    if num_parts == 1:
        return [minibatch]
    if not isinstance(minibatch, Minibatch):
        raise TypeError(
            f"only minibatches of a source can be cut, this is a {type(minibatch).__name__}"
        )
    if not isinstance(minibatch._layout, Ragged | Frames | Padded):
        raise TypeError(f"minibatches of the layout {minibatch._layout} cannot be cut")
    count = minibatch.num_sequences
    borders = [i * count // num_parts for i in range(num_parts + 1)]
    return [Part(minibatch, begin, end) for begin, end in pairwise(borders)]


class Part(Minibatch):
    """Some sequences of a minibatch; what is said of the global minibatch stays that."""

    __slots__ = ("_begin", "_end", "_streams")

    def __init__(self, whole: Minibatch, begin: int, end: int) -> None:
        super().__init__(whole._batch, whole._keys, whole._layout, whole._ids, whole._device)
        self._streams = {key: PartData(whole[key], begin, end) for key in whole}
        self._begin = begin
        self._end = end

    def __getitem__(self, key: Any) -> MinibatchData:
        return self._streams[key]

    @property
    def num_sequences(self) -> int:
        """Sequences in this part."""
        return self._end - self._begin

    @property
    def num_samples(self) -> int:
        """Samples in this part, in the size-defining stream."""
        streams = self._streams.values()
        sizing = [data for data in streams if data.info.defines_mb_size] or streams
        lengths = [data.lengths for data in sizing]
        return int(np.max(lengths, axis=0, initial=0).sum())

    @property
    def ids(self) -> list[str]:
        """The id of every sequence of the part."""
        return super().ids[self._begin : self._end]


class PartData(MinibatchData):
    """One stream of some sequences of a minibatch: views of the whole."""

    def __init__(self, whole: MinibatchData, begin: int, end: int) -> None:
        super().__init__(whole.info, whole._batch, whole._stream, whole._layout, whole._device)
        self._whole = whole
        self._begin = begin
        self._end = end

    @property
    def num_sequences(self) -> int:
        """Sequences in this part."""
        return self._end - self._begin

    @property
    def num_samples(self) -> int:
        """Samples of this stream in this part."""
        return int(self.offsets[-1])

    @property
    def max_seqlen(self) -> int:
        """Samples of the longest sequence; 0 in an empty part."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where sequences begin in `values`, and the end: int64, shape (sequences + 1,)."""
        absolute = self._whole.offsets[self._begin : self._end + 1]
        offsets: NDArray[np.int64] = absolute - absolute[0]
        return offsets

    @cached_property
    def values(self) -> Any:
        """All samples of the part one behind the other, as `MinibatchData.values`."""
        begin, end = self._whole.offsets[[self._begin, self._end]]
        return self._whole.values[begin:end]

    def asarray(
        self, pad_value: float | None = None, dtype: DTypeLike | None = None
    ) -> NDArray[Any]:
        """Return all sequences as one dense array; of a padded layout it keeps its width."""
        dense = self._whole.asarray(pad_value, dtype)[self._begin : self._end]
        return dense if self._is_grid else dense[:, : self.max_seqlen]

    @cached_property
    def mask(self) -> NDArray[np.uint8]:
        """Which cells of `asarray` hold data: uint8; 2 start of a sequence, 1 valid, 0 gap."""
        mask = self._whole.mask[self._begin : self._end]
        return mask if self._is_grid else mask[:, : self.max_seqlen]
