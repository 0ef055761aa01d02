"""Layouts that take as many whole sequences as fit, in the order of the timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.checks import check_int
from sweephand.layouts.base import Layout
from sweephand.layouts.padding import GapLayout, PadValue, check_side


class WholeSequences(Layout):
    """As many whole sequences as fit."""

    shares_by_lanes: ClassVar[bool] = True

    @property
    def planner_choices(self) -> _core.compose.Fitting:
        """Nothing: there is one way to fill a minibatch in order."""
        return _core.compose.Fitting()


@dataclass(frozen=True)
class Ragged(WholeSequences):
    """Sequences one behind the other: values and offsets, no padding. The default."""


@dataclass(frozen=True)
class Frames(WholeSequences):
    """Every sample is its own sequence. Streams must have equal lengths."""


@dataclass(frozen=True)
class Padded(WholeSequences, GapLayout):
    """A row per sequence, as wide as the minibatch's longest, with a mask.

    Parameters
    ----------
    pad_value : number, or dict of numbers
        What fills the gaps; a dict gives it per stream, 0 for those that it does not name.
    side : {"right", "left"}
        Where padding stands.
    multiple_of : int
        Widths are rounded up to a multiple of it.
    """

    form: ClassVar[_core.engine.Form] = _core.engine.Form.PADDED

    pad_value: PadValue = 0
    side: Literal["right", "left"] = "right"
    multiple_of: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_side(self.side)
        check_int("multiple_of", self.multiple_of, 1, 2**31)

    @property
    def assemble_options(self) -> _core.engine.AssembleOptions:
        """How minibatches lie in memory."""
        left = self.side == "left"
        return _core.engine.AssembleOptions(self.form, left, self.multiple_of, False)

    def padding_growth(self, some_sizes: Callable[[], NDArray[np.uint32]]) -> float:
        """Return about how many cells a sample takes, judging by some sequences' sizes."""
        sizes = some_sizes()
        width = -(-int(sizes.max()) // self.multiple_of) * self.multiple_of
        return width / float(sizes.mean())
