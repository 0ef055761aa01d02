"""Layouts side by side: the steps of a sweep in each, and a recommendation."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sweephand.cli.dry_run import DryRun, over_mean, plan_sweep
from sweephand.cli.options import make_source
from sweephand.deserializers.deserializer import Deserializer
from sweephand.layouts import Bucketed, Packed
from sweephand.source.length_limits import flat_parts
from sweephand.source.source import MinibatchSource
from sweephand.terminal.numbers import in_percent
from sweephand.terminal.screen import Screen

_LITTLE_PADDING = 0.05
_SPLIT = ', "split"'


@dataclass(frozen=True)
class LayoutFigures:
    """Figures of a layout over the planned steps."""

    layout: str  # as Python spells it
    steps: int  # minibatches
    waste: float  # padding, of all cells
    # over all workers, on average
    cells_per_step: float
    rows_per_step: float
    shapes: int  # different shapes of a worker's dense array
    # by how much the worker with most cells exceeds the mean, on average over steps
    imbalance: float
    split_sequences: int = 0  # those that are longer than a row and cut, in a sweep

    @classmethod
    def of(
        cls,
        layout: str,
        samples: NDArray[np.int64],
        grids: NDArray[np.int64],
        split_sequences: int = 0,
    ) -> Self:
        """Return the figures of dense arrays."""
        cells = grids.prod(axis=2)
        return cls(
            layout=layout,
            steps=len(samples),
            waste=float(1 - samples.sum() / cells.sum()),
            cells_per_step=float(cells.sum(axis=1).mean()),
            rows_per_step=float(grids[:, :, 0].sum(axis=1).mean()),
            shapes=len(np.unique(grids.reshape(-1, 2), axis=0)),
            imbalance=float(over_mean(cells).mean()),
            split_sequences=split_sequences,
        )

    @property
    def percent(self) -> str:
        """The waste, for people."""
        return in_percent(self.waste)


def layout_facts(
    corpus: Deserializer,
    steps: DryRun,
    size: int,
    arguments: argparse.Namespace,
    screen: Screen,
) -> dict[str, object]:
    """Return the figures of each layout on the corpus, and the recommended layout."""
    found = _whole_sequences(steps, arguments.multiple_of)

    def add(name: str, text: str, source: MinibatchSource) -> None:
        planned = plan_sweep(source, size, arguments, screen)
        split = int(source.stats()["split_sequences"])
        found[name] = LayoutFigures.of(text, planned.samples, planned.grids, split)

    buckets = Bucketed("auto", arguments.buckets)
    with make_source(corpus, arguments, layout=buckets) as source:
        add("bucketed", f'Bucketed("auto", {arguments.buckets})', source)
        assert isinstance(source.layout, Bucketed)
        longest = source.layout.default_bucket_key
        are_flat = bool(flat_parts(source.timeline.corpus))
    if not are_flat or arguments.row_length:  # packed rows refuse sequences of one sample each
        row_length = arguments.row_length or _row_length(longest, size // arguments.workers)
        splits = row_length < longest
        rows = Packed(row_length, "split" if splits else "error")
        with make_source(corpus, arguments, layout=rows) as source:
            add("packed", f"Packed({row_length}{_SPLIT if splits else ''})", source)
    name, reason = recommend(found, steps.has_equal_sequences)
    return {
        "layouts": {name: asdict(figures) for name, figures in found.items()},
        "recommended": {"layout": found[name].layout, "reason": reason},
    }


def _row_length(longest: int, samples_per_worker: int) -> int:
    """Return the power of two for the longest sequence, or that a worker has room for."""
    room = max(1, samples_per_worker).bit_length() - 1
    return 1 << min((longest - 1).bit_length(), room)


def _whole_sequences(steps: DryRun, multiple_of: int) -> dict[str, LayoutFigures]:
    flat = np.stack([np.ones_like(steps.shares), steps.shares], axis=2)
    padded = "Padded()" if multiple_of == 1 else f"Padded(multiple_of={multiple_of})"
    return {
        "ragged": LayoutFigures.of("Ragged()", steps.samples, flat),
        "padded": LayoutFigures.of(padded, steps.samples, steps.grids),
    }


def recommend(figures: dict[str, LayoutFigures], equal_sequences: bool) -> tuple[str, str]:
    """Return the name of the layout to take, and why."""
    if equal_sequences:
        return "ragged", "all sequences have one length: there is nothing to pad"
    padded, bucketed, packed = (figures.get(name) for name in ("padded", "bucketed", "packed"))
    assert padded is not None
    assert bucketed is not None
    if padded.waste <= _LITTLE_PADDING and padded.shapes <= bucketed.shapes:
        return "padded", f"it pads only {padded.percent} in {padded.shapes} shapes"
    if packed is None:
        return (
            "bucketed",
            f"it pads {bucketed.percent}; there are no packed rows of a corpus whose sequences "
            "have one sample each",
        )
    if bucketed.waste <= packed.waste:
        return (
            "bucketed",
            f"it pads {bucketed.percent}, rows of packed sequences {packed.percent}: the "
            "corpus is small, or the rows are short for its sequences",
        )
    count = packed.split_sequences
    cut = f" and cuts {count} sequence{'s' * (count != 1)}" if count else ""
    return (
        "packed",
        f"it pads {packed.percent}{cut} where padded rows have {padded.percent}; for a model "
        f"that cannot keep segments apart take {bucketed.layout}, {bucketed.percent}",
    )
