"""The options of a source, checked together."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sweephand.checks import check_int, check_number
from sweephand.corpus.node_cache import NodeCache
from sweephand.events.event_list import EventList
from sweephand.layouts import Frames, Layout, Ragged
from sweephand.printable import shown
from sweephand.source.balance import Balance, cost_of
from sweephand.source.by_score import ByScore
from sweephand.source.limits import Limits
from sweephand.source.window import Window

DEFAULT_NUM_LANES = 48


@dataclass(frozen=True)
class Settings:
    """The options of a `MinibatchSource`, by their names; a copy in another process has them.

    Attributes
    ----------
    crosses_sweeps : bool
        A minibatch may hold the end of one sweep and the beginning of the next.
    events : EventList
        What happens on the timeline.
    events_file : path or None
        Where they are kept.
    """

    max_samples: int
    max_sweeps: int
    randomize: bool
    order: ByScore | None
    randomization_window_in_chunks: int
    randomization_window_in_samples: int
    randomization_seed: int
    num_lanes: int | None
    layout: Layout | None
    frame_mode: bool
    truncation_length: int
    balance: Balance
    missing: Literal["error", "drop"]
    max_errors: int
    num_threads: int | None
    prefetch: int
    memory_limit: int | None
    num_map_workers: int | None
    map_executor: Literal["threads", "processes"]
    map_timeout: float | None
    node_cache: NodeCache | None
    crosses_sweeps: bool
    events: EventList = field(default_factory=EventList)
    events_file: Path | None = None

    def __post_init__(self) -> None:
        _ = self.limits, self.window, self.chosen_layout
        check_int("randomization_seed", self.randomization_seed, 0, 2**64)
        check_int("max_errors", self.max_errors, 0, 2**63)
        check_int("prefetch", self.prefetch, 0, 2**16)
        self._check_order()
        self._check_balance()
        if self.missing not in ("error", "drop"):
            raise ValueError(f"missing must be 'error' or 'drop', got {shown(self.missing)}")
        if self.memory_limit is not None:
            check_int("memory_limit", self.memory_limit, 1, 2**63)
        if self.node_cache is not None and not isinstance(self.node_cache, NodeCache):
            raise TypeError(
                "node_cache must be a NodeCache such as sh.NodeCache('/disk/cache', max_bytes="
                f"10**11), got {shown(self.node_cache)}"
            )
        check_int("num_lanes", self.lanes, 1, 2**16)
        if self.num_threads is not None:
            check_int("num_threads", self.num_threads, 0, 2**10)
        if self.num_map_workers is not None:
            check_int("num_map_workers", self.num_map_workers, 0, 2**10)
        if self.map_executor not in ("threads", "processes"):
            given = shown(self.map_executor)
            raise ValueError(f"map_executor must be 'threads' or 'processes', got {given}")
        if (
            self.map_timeout is not None
            and not check_number("map_timeout", self.map_timeout) > 0
        ):
            raise ValueError(f"map_timeout must be above 0 seconds, got {self.map_timeout:g}")
        if self.map_timeout is not None and self.num_map_workers == 0:
            raise ValueError(
                "map_timeout needs num_map_workers of at least 1: with 0 a map runs in the "
                "thread that prepares the minibatch, which nobody can give up"
            )

    def _check_balance(self) -> None:
        if cost_of(self.balance) is None:
            return
        layout = self.chosen_layout
        if layout.rows_go_on:
            kind = type(layout).__name__
            raise ValueError(f"balance is for shares that may change: rows of {kind} go on")
        if layout.shares_by_lanes and not self.randomize:
            raise ValueError(
                "balance needs randomize=True: unshuffled sequences are dealt in turn"
            )
        if layout.shares_by_lanes and self.keeps_order:
            raise ValueError("sequences in an order by score are dealt in turn: no balance")

    def _check_order(self) -> None:
        if self.order is None:
            return
        if not isinstance(self.order, ByScore):
            raise TypeError(f"order must be an sh.ByScore(scores), got {shown(self.order)}")
        if not self.randomize:
            raise ValueError("an order by score is one of shuffled sweeps: no randomize=False")
        if self.num_lanes not in (None, 1):
            raise ValueError(
                f"an order by score has one lane, got num_lanes={shown(self.num_lanes)}; "
                "any number of workers can share it"
            )

    @property
    def limits(self) -> Limits:
        """The end of the timeline."""
        return Limits.check(self.max_samples, self.max_sweeps)

    @property
    def window(self) -> Window:
        """The randomization window that was given."""
        return Window.check(
            self.randomize,
            self.randomization_window_in_chunks,
            self.randomization_window_in_samples,
        )

    @property
    def of_chunks(self) -> tuple[object, ...]:
        """What decides, beside the deserializers, what is in a chunk."""
        return isinstance(self.chosen_layout, Frames), self.window.explicit, self.missing

    @property
    def keeps_order(self) -> bool:
        """Whether sweeps have one lane, whose order shares, rows and buckets keep."""
        return not self.randomize or self.order is not None

    @property
    def lanes(self) -> int:
        """Lanes that a shuffled sweep is read in."""
        if self.order is not None:
            return 1
        return DEFAULT_NUM_LANES if self.num_lanes is None else self.num_lanes

    @property
    def threads(self) -> int:
        """Threads that prepare minibatches; none where none is to be prepared."""
        if self.prefetch == 0:
            return 0
        if self.num_threads is None:
            return max(1, (os.cpu_count() or 2) // 2)
        return self.num_threads

    @property
    def map_workers(self) -> int:
        """Workers that map sequences."""
        if self.num_map_workers is None:
            return os.cpu_count() or 1
        return self.num_map_workers

    @property
    def chosen_layout(self) -> Layout:
        """The layout, by whichever of its names it was given."""
        layout, length = self.layout, self.truncation_length
        check_int("truncation_length", length, 0, 2**31)
        if self.frame_mode and length:
            raise ValueError("frame_mode and truncation_length exclude each other")
        if layout is not None:
            if self.frame_mode or length:
                raise ValueError("give a layout, or frame_mode or truncation_length, not both")
            if not isinstance(layout, Layout):
                raise TypeError(_layout_to_write(layout))
            return layout
        if length:
            from sweephand.layouts import TruncatedBPTT

            return TruncatedBPTT(length)
        return Frames() if self.frame_mode else Ragged()


_LAYOUTS = {
    "ragged": "sh.Ragged()",
    "padded": "sh.Padded()",
    "packed": "sh.Packed(row_length)",
    "bucketed": "sh.Bucketed('auto')",
    "truncatedbptt": "sh.TruncatedBPTT(length)",
    "frames": "sh.Frames()",
}


def _layout_to_write(given: object) -> str:
    """Say what to write in place of something that is no layout."""
    name = given.__name__ if isinstance(given, type) else given
    meant = _LAYOUTS.get(name.lower()) if isinstance(name, str) else None
    write = meant or f"one of {', '.join(_LAYOUTS.values())}"
    return (
        f"layout must be a Layout such as sh.Padded(), got {shown(given)}; write layout={write}"
    )
