"""What a corpus is opened with, where maps are to run."""

from __future__ import annotations

from dataclasses import dataclass, field

from sweephand.corpus.ledger import Ledger
from sweephand.maps.workers import MapWorkers


@dataclass(frozen=True)
class Opening:
    """What a source knows when it opens a corpus.

    Attributes
    ----------
    ledger : Ledger
        Where damaged items are counted.
    seed : int
        Of the source: what keys are derived from.
    workers : MapWorkers
        What maps run on; without workers the thread that wants the sequences.
    """

    ledger: Ledger
    seed: int = 0
    workers: MapWorkers = field(default_factory=lambda: MapWorkers(0))
