"""Rows whose sequences continue from one minibatch to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.layouts.base import Layout, row_length_for


@dataclass(frozen=True)
class TruncatedBPTT(Layout):
    """CNTK's layout for truncated back-propagation through time.

    A minibatch of m samples is the next `length` samples of each of ``max(1, m // length)``
    rows. A row holds one sequence after the other; an unfinished one continues at column 0 of
    the same row in the next minibatch, so that recurrent state can be carried:
    see `MinibatchData.starts`. At the end of a sweep, or of a part of a long one, all rows run
    empty (``docs/layouts.md``); only there a changed minibatch size changes the number of rows.
    Row j goes to worker j mod K and stays there. Streams must have equal lengths; a stream with
    one sample per sequence comes beside the rows, once per piece.

    Parameters
    ----------
    length : int
        Columns of a minibatch, in [1, 2^31).

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(n) for n in (3, 9, 4, 7)]})
    >>> layout = sh.TruncatedBPTT(4)
    >>> source = sh.MinibatchSource(corpus, layout=layout, randomize=False, max_sweeps=1)
    >>> [minibatch["tokens"].asarray().tolist() for minibatch in source.minibatches(4)][:3]
    [[[0, 1, 2, 0]], [[1, 2, 3, 4]], [[5, 6, 7, 8]]]
    """

    length: int

    form: ClassVar[_core.engine.Form] = _core.engine.Form.ROWS
    rows_go_on: ClassVar[bool] = True
    depends_on_size: ClassVar[bool] = True

    @classmethod
    def of_length(cls, length: int | None, size: int) -> TruncatedBPTT:
        return cls(length or row_length_for(size))

    def __post_init__(self) -> None:
        check_int("length", self.length, 1, 2**31)

    @property
    def planner_choices(self) -> _core.compose.Truncation:
        return _core.compose.Truncation(self.length)

    def num_cells(self, minibatch_size_in_samples: int, some_sizes: object) -> int:
        return max(1, minibatch_size_in_samples // self.length) * self.length
