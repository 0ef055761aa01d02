"""The order of a corpus on nominal time, and where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweephand import _core
from sweephand.corpus.ids import digests_of_names

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus
    from sweephand.layouts import Layout
    from sweephand.source.options import SourceOptions
    from sweephand.source.window import Window

_OF_A_CORPUS = 10  # the purpose of a key: docs/order.md, "Mixtures"


def make_order(
    corpus: Corpus, options: SourceOptions, window: Window
) -> tuple[_core.order.Timeline, int]:
    """Return the order of a corpus, and its end in samples or INFINITELY_REPEAT."""

    def settings_of(part: Corpus, name: str) -> _core.order.OrderSettings:
        own, seed = window, options.randomization_seed
        if name:
            own = options.window.of(part)
            digest = int(digests_of_names([name])[0])
            seed = _core.base.derive_key([1, seed, _OF_A_CORPUS, digest])
        return _core.order.OrderSettings(
            seed=seed,
            num_lanes=options.lanes,
            window_chunks=own.chunks,
            window_samples=own.samples,
            randomize=options.randomize,
        )

    return corpus.timeline(settings_of, options.limits)


def make_planner(
    order: _core.order.Timeline, layout: Layout, end: int
) -> _core.compose.Planner:
    """Return the planner of minibatches of an order, at its start; `end` is in samples."""
    if getattr(layout, "micro_batch_cells", None) is not None:
        raise ValueError("micro_batch_cells is for plan_lengths; a source has no such parts")
    return _core.compose.Planner(order, layout.planner_choices, end)
