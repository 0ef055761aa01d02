"""Rows of fixed length that several sequences share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_choice, check_int
from sweephand.layouts.base import (
    GapLayout,
    LengthLimit,
    LongPolicy,
    OverLimit,
    PadValue,
    row_length_for,
)


@dataclass(frozen=True)
class Packed(GapLayout):
    """Whole sequences in rows of fixed length, several to a row.

    A minibatch of m samples holds ``max(1, m // row_length)`` rows, fewer only at the end of
    data. Rows are planned from lengths alone, within a sweep, about a thousand rows at a time
    (``docs/layouts.md``): a row does not depend on minibatch sizes and numbers of workers. Row
    j of a minibatch goes to worker j mod K; every worker has the same number of rows, the last
    of which may be empty.

    Parameters
    ----------
    row_length : int
        Cells of a row, in [1, 2^31].
    split_long : {"error", "split", "drop"}
        Treatment of sequences longer than a row: refused when the source is made; cut into full
        rows and a rest; or left out of the corpus and counted in ``stats()``.
    pad_value : number, or dict of numbers
        Value at the end of a row; a dict has it per stream.
    look_ahead : int
        Sequences in sight of the packer where the order of the corpus is kept
        (``randomize=False``), and of every corpus of a mixture: a row starts with the oldest,
        then takes the longest one that fits. 1 is next fit. A shuffled sweep of one corpus has
        no order to keep: all that are packed together are in sight, and rows are shuffled.
    cu_seqlens_capacity : int, optional
        Sequences of a share that `MinibatchData.cu_seqlens` always has entries for.
    micro_batch_rows : int, optional
        Group the rows of every share into micro-batches of this size, for
        `Minibatch.micro_batches`; empty rows fill them up, so that all workers have equally
        many, which with ``balance=`` cost nearly the same. Which rows make up the global
        minibatch never changes.
    parts : str, optional
        The stream that holds the part of its sequence to which each sample belongs, as
        ``StreamDef(parts=...)`` of the tokens names it for all layouts.
    limits : dict of int, optional
        The most items of a carried stream that a row holds: ``{"patches": 8192}``.
    over_limit : {"error", "drop", "alone"}
        Treatment of sequences that carry more than a limit: as in `split_long`, or put in a row
        with none that carry of the same stream.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(n) for n in (3, 9, 4, 7)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Packed(12), randomize=False, max_sweeps=1)
    >>> minibatch = source.next_minibatch(24)
    >>> minibatch["tokens"].asarray()
    array([[0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8],
           [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 0]])
    >>> minibatch.segment_ids
    array([[1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2],
           [1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 0]], dtype=int32)
    """

    row_length: int
    split_long: LongPolicy = "error"
    pad_value: PadValue = 0
    look_ahead: int = 64
    cu_seqlens_capacity: int | None = None
    micro_batch_rows: int | None = None
    parts: str | None = None
    limits: Mapping[str, int] | None = None
    over_limit: OverLimit = "error"

    form: ClassVar[_core.engine.Form] = _core.engine.Form.ROWS
    has_segments: ClassVar[bool] = True

    @classmethod
    def of_length(cls, length: int | None, size: int) -> Packed:
        return cls(length or row_length_for(size), split_long="split")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("row_length", self.row_length, 1, 2**31 + 1)
        check_int("look_ahead", self.look_ahead, 1, 2**63)
        check_choice("split_long", self.split_long, "error", "split", "drop")
        check_choice("over_limit", self.over_limit, "error", "drop", "alone")
        if self.limits is not None:
            for name, most in dict(self.limits).items():
                check_int(f"the limit of {name!r}", most, 1, 2**31 + 1)
            object.__setattr__(self, "limits", dict(sorted(self.limits.items())))
        for name in ("cu_seqlens_capacity", "micro_batch_rows"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1, 2**31)

    def describe(self) -> str:
        # The options that decide the order.
        return super(Packed, replace(self, micro_batch_rows=None, parts=None)).describe()

    def settle(
        self, corpus: _core.index.Corpus, counts: Mapping[str, NDArray[np.uint32]]
    ) -> Self:
        made = replace(self)
        sizes = {name: _core.index.StoredSizes(counts[name]) for name in self.limits or {}}
        object.__setattr__(made, "_counts", sizes)
        return made

    @property
    def length_limit(self) -> LengthLimit:
        return LengthLimit(
            self.row_length,
            f"a row of {self.row_length}",
            self.split_long,
            "take longer rows, or split_long='split' or 'drop'",
        )

    @property
    def planner_choices(self) -> _core.compose.Packing:
        packing = _core.compose.Packing(
            self.row_length,
            self.look_ahead,
            self.split_long == "split",
            self.micro_batch_rows or 0,
        )
        counts: Mapping[str, _core.index.Sizes] = getattr(self, "_counts", {})
        for name, most in (self.limits or {}).items():
            packing = packing.within(counts[name], most)
        return packing

    def num_cells(self, minibatch_size_in_samples: int, some_sizes: object) -> int:
        together = self.micro_batch_rows or 1
        rows = minibatch_size_in_samples // self.row_length
        return max(1, -(-rows // together)) * together * self.row_length

    def samples_at_hand(self, window_samples: int) -> int:
        # A pack has about so many at most.
        return min(3 * 2**10 * self.row_length, max(window_samples, 2**10 * self.row_length))
