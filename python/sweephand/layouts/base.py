"""What every layout is: how minibatches are planned, and how they lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core

LongPolicy = Literal["error", "split", "drop"]


@dataclass(frozen=True)
class LengthLimit:
    """How long sequences may be, and what happens to longer ones.

    Attributes
    ----------
    longest : int
        Samples of the longest sequence that fits.
    what : str
        What does not hold more, for errors.
    policy : {"error", "split", "drop"}
        What happens to longer sequences.
    advice : str
        What else a caller can do, for errors.
    """

    longest: int
    what: str
    policy: LongPolicy
    advice: str


@dataclass(frozen=True)
class Layout:
    """How a minibatch is composed and laid out."""

    # Which sequences a worker gets follows from lanes, so that there are at most that many.
    shares_by_lanes: ClassVar[bool] = True
    # Sequences, or pieces of them, lie in rows of a fixed length.
    has_rows: ClassVar[bool] = False
    # When a sequence comes depends on the minibatch sizes that are asked for.
    depends_on_size: ClassVar[bool] = False

    # Bytes of masks and marks for every cell of a stream.
    mark_bytes: ClassVar[int] = 0

    def describe(self) -> str:
        """Return the layout and its parameters, for fingerprints."""
        return repr(self)

    @property
    def num_progress(self) -> int:
        """About how many numbers a state has of progress."""
        return 1

    def summary(self) -> str:
        """Return the layout and what of it is not the default, the shortest first."""
        told = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(sorted(told, key=len))})"

    def check_streams(self, streams: Collection[str]) -> None:
        """Refuse parameters for streams that are not there, with ValueError."""

    def pad_value_of(self, stream: str) -> float:
        """Return what fills the gaps of a stream in a dense array."""
        return 0

    @property
    def length_limit(self) -> LengthLimit | None:
        """How long sequences may be; None: as long as they like."""
        return None

    def settle(self, corpus: _core.index.Corpus) -> Self:
        """Return the layout with everything decided that follows from the lengths."""
        return self

    def assemble_options(self) -> _core.engine.AssembleOptions:
        """Return how minibatches lie in memory."""
        return _core.engine.AssembleOptions(_core.engine.Form.RAGGED, False, 1, False)

    def make_planner(
        self,
        timeline: _core.order.Timeline,
        limit: int,
        *,
        crosses_sweeps: bool = True,
        balance_samples: bool = False,
    ) -> _core.compose.Planner:
        """Return what says which sequences make up each minibatch.

        Parameters
        ----------
        timeline : core object
            The order.
        limit : int
            End of the timeline, in samples.
        crosses_sweeps, balance_samples : bool
            Of layouts whose minibatches are as many whole sequences as fit.
        """
        return _core.compose.FitPlanner(timeline, limit, crosses_sweeps, balance_samples)

    def num_cells(self, minibatch_size_in_samples: int) -> int:
        """Return how many cells a minibatch of a size has at most, as far as that is known."""
        return minibatch_size_in_samples

    def padding_growth(self, some_sizes: Callable[[], NDArray[np.uint32]]) -> float:
        """Return about how many cells a sample takes, judging by some sequences' sizes.

        They may have to be loaded, so they are asked for only where it depends on them.
        """
        return 1.0
