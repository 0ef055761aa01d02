"""Effects of events on a timeline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sweephand import _core

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sweephand.corpus.corpus import Corpus


@dataclass(frozen=True)
class Effects:
    """Effects of events on the timeline of a corpus."""

    corpus: Corpus  # with the weights of a mixture as they change
    # spans of nominal time, ascending, apart from each other
    skips: tuple[tuple[int, int], ...] = ()
    # nominal times, ascending, and which sequences are left out from there on
    bans: tuple[tuple[int, NDArray[np.uint64]], ...] = ()
    # nominal times, ascending, that no minibatch reaches over, besides where skips begin
    cuts: tuple[int, ...] = ()

    @property
    def change_plans(self) -> bool:
        """True if events change minibatches beyond the order and the layout."""
        return bool(self.skips or self.bans or self.cuts)

    @cached_property
    def core(self) -> _core.compose.Events:
        """The same for the core, but for weights."""
        bans = _core.compose.Bans(sum(len(numbers) for _, numbers in self.bans))
        for at, numbers in self.bans:
            bans.add(at, numbers)
        skips = [_core.compose.Skip(begin, end) for begin, end in self.skips]
        return _core.compose.Events(skips, list(self.cuts), bans)
