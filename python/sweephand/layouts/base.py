"""Layouts: how minibatches are composed, and how they are stored in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core

LongPolicy = Literal["error", "split", "drop"]
OverLimit = Literal["error", "drop", "alone"]

_MOST_CELLS = 512  # of a row whose length is not given


def row_length_for(size: int) -> int:
    """Return the greatest power of two that a minibatch has room for, up to a limit."""
    return min(_MOST_CELLS, 1 << (size.bit_length() - 1))


@dataclass(frozen=True)
class LengthLimit:
    """Limit of the length of sequences, and the policy for longer ones."""

    longest: int  # samples of the longest sequence that fits
    what: str  # what does not hold more, for errors
    policy: LongPolicy  # what happens to longer sequences
    advice: str  # what else a caller can do, for errors


@dataclass(frozen=True)
class Layout:
    """The composition of minibatches, and their form in memory.

    Examples
    --------
    >>> import sweephand as sh
    >>> isinstance(sh.Packed(128), sh.Layout), sh.Padded() == sh.Padded(multiple_of=1)
    (True, True)
    """

    # The form of minibatches in memory, and if rows come with segment and position ids.
    form: ClassVar[_core.engine.Form] = _core.engine.Form.RAGGED
    has_segments: ClassVar[bool] = False
    # A piece that does not end with its row goes on in the same row of the next minibatch.
    rows_go_on: ClassVar[bool] = False
    # Which sequences a worker gets follows from lanes, so that there are at most that many.
    shares_by_lanes: ClassVar[bool] = False
    # Minibatches take as many whole sequences as fit, in the order of the timeline.
    fits_in_order: ClassVar[bool] = False
    # Every sample is a sequence of its own.
    cuts_sequences: ClassVar[bool] = False
    # When a sequence comes depends on the minibatch sizes that are asked for.
    depends_on_size: ClassVar[bool] = False

    @classmethod
    def of_length(cls, length: int | None, size: int) -> Layout:
        """Return the layout of one number, as commands and pages offer a choice of layouts.

        Parameters
        ----------
        length : int or None
            Cells of a row, the multiple of padded widths, or the number of buckets; None takes
            one that suits the size.
        size : int
            Samples in a minibatch.

        Raises
        ------
        ValueError
            If there is no layout of such a length.
        """
        return cls()

    @property
    def has_rows(self) -> bool:
        """True if sequences, or pieces of them, fill rows of a fixed length."""
        return self.form is _core.engine.Form.ROWS

    @property
    def has_fixed_width(self) -> bool:
        """True if dense arrays are as wide as the layout demands, whatever they hold."""
        return self.has_rows

    @property
    def mark_bytes(self) -> int:
        """Bytes of masks and marks for every cell of a stream."""
        return (self.form is not _core.engine.Form.RAGGED) + 8 * self.has_segments

    @property
    def cu_seqlens_capacity(self) -> int | None:
        """Sequences of a share that boundaries always have entries for."""
        return None

    @property
    def micro_batch_rows(self) -> int | None:
        """Rows of every micro-batch that shares are grouped into."""
        return None

    @property
    def parts(self) -> str | None:
        """The stream that holds the part of its sequence to which each sample belongs."""
        return None

    @property
    def may_cut(self) -> bool:
        """True if sequences may be cut."""
        limit = self.length_limit
        cuts_long = limit is not None and limit.policy == "split"
        return self.cuts_sequences or self.rows_go_on or cuts_long

    def describe(self) -> str:
        """Return the layout with its parameters that are not the default, for fingerprints."""
        changed = [one.name for one in fields(self) if getattr(self, one.name) != one.default]
        values = [f"{name}={getattr(self, name)!r}" for name in changed]
        return f"{type(self).__name__}({', '.join(values)})"

    def check_streams(self, streams: Collection[str]) -> None:
        """Refuse parameters for streams that are not there, with ValueError."""

    def pad_value_of(self, stream: str) -> float:
        """Return the value that fills the gaps of a stream in a dense array."""
        return 0

    @property
    def length_limit(self) -> LengthLimit | None:
        """The longest sequence that the layout holds; None if it holds any."""
        return None

    @property
    def load_limits(self) -> Mapping[str, int]:
        """The most items of carried streams that a row holds."""
        return {}

    @property
    def over_limit(self) -> OverLimit:
        """Treatment of sequences that carry more."""
        return "error"

    def within(self, counts: Mapping[str, NDArray[np.uint32]]) -> Self:
        """Return the layout with the counts of the limited streams in every sequence."""
        return self

    def settle(self, corpus: _core.index.Corpus) -> Self:
        """Return the layout with everything decided that follows from the lengths."""
        return self

    @property
    def assemble_options(self) -> _core.engine.AssembleOptions:
        """Layout of minibatches in memory."""
        return _core.engine.AssembleOptions(self.form, False, 1, self.has_segments)

    @property
    def planner_choices(self) -> Any:
        """Choices of which the core's planner of this layout is made."""
        raise NotImplementedError

    def num_cells(self, minibatch_size_in_samples: int) -> int:
        """Return how many cells a minibatch of a size has at most, as far as that is known."""
        return minibatch_size_in_samples

    def samples_at_hand(self, window_samples: int) -> int:
        """Return about how many samples are composed together, beyond a minibatch's."""
        return 0

    def padding_growth(self, some_sizes: Callable[[], NDArray[np.uint32]]) -> float:
        """Estimate the cells per sample from the sizes of a few sequences.

        They may have to be loaded, so they are asked for only where it depends on them.
        """
        return 1.0
