"""Layouts that take as many whole sequences as fit, in the order of the timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_choice, check_int
from sweephand.layouts.base import GapLayout, Layout, PadValue


@dataclass(frozen=True)
class Ragged(Layout):
    """Concatenated sequences: values and offsets, no padding. The default.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(n) for n in (3, 9, 4, 7)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Ragged(), randomize=False, max_sweeps=1)
    >>> data = source.next_minibatch(16)["tokens"]
    >>> data.values.shape, data.offsets
    ((16,), array([ 0,  3, 12, 16]))
    """


@dataclass(frozen=True)
class Frames(Layout):
    """Every sample is its own sequence. Streams must have equal lengths.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"x": [np.arange(4), np.arange(4, 6)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Frames(), max_sweeps=1)
    >>> [minibatch.num_sequences for minibatch in source.minibatches(4)]
    [4, 2]
    """

    cuts_sequences: ClassVar[bool] = True


@dataclass(frozen=True)
class Padded(GapLayout):
    """A row per sequence, as wide as the minibatch's longest, with a mask.

    Parameters
    ----------
    pad_value : number, or dict of numbers
        Value of the gaps; a dict has it per stream, with 0 for streams not named.
    side : {"right", "left"}
        The side of the padding.
    multiple_of : int
        Widths are rounded up to a multiple of it.
    micro_batch_cells : int, optional
        The most cells of a micro-batch of `plan_lengths`; a source has none.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(n) for n in (3, 9, 4, 7)]})
    >>> layout = sh.Padded(pad_value=-1, multiple_of=4)
    >>> source = sh.MinibatchSource(corpus, layout=layout, randomize=False, max_sweeps=1)
    >>> source.next_minibatch(12)["tokens"].asarray()
    array([[ 0,  1,  2, -1, -1, -1, -1, -1, -1, -1, -1, -1],
           [ 0,  1,  2,  3,  4,  5,  6,  7,  8, -1, -1, -1]])
    """

    form: ClassVar[_core.engine.Form] = _core.engine.Form.PADDED

    pad_value: PadValue = 0
    side: Literal["right", "left"] = "right"
    multiple_of: int = 1
    micro_batch_cells: int | None = None

    @classmethod
    def of_length(cls, length: int | None, size: int) -> Padded:
        return cls(multiple_of=length or 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("side", self.side, "right", "left")
        check_int("multiple_of", self.multiple_of, 1, 2**31)
        if self.micro_batch_cells is not None:
            check_int("micro_batch_cells", self.micro_batch_cells, self.multiple_of, 2**31)

    @property
    def assemble_options(self) -> _core.engine.AssembleOptions:
        left = self.side == "left"
        return _core.engine.AssembleOptions(self.form, left, self.multiple_of, False)

    def num_cells(
        self, minibatch_size_in_samples: int, some_sizes: Callable[[], NDArray[np.uint32]]
    ) -> float:
        sizes = some_sizes()
        width = -(-int(sizes.max()) // self.multiple_of) * self.multiple_of
        return minibatch_size_in_samples * width / float(sizes.mean())
