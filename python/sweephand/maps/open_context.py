"""Context in which a corpus with maps is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sweephand.corpus.ledger import Ledger
from sweephand.maps.workers import MapWorkers


@dataclass(frozen=True)
class OpenContext:
    """Context of a source that opens a corpus.

    Attributes
    ----------
    ledger : Ledger
        Where damaged items are counted.
    seed : int
        Of the source: what keys are derived from.
    workers : MapWorkers
        What maps run on; without workers the thread that wants the sequences.
    map_versions : tuple of (int, str, int)
        Nominal times, ascending, from which on a map of a name has another version.
    missing : {"error", "drop"}
        What becomes of sequences that are not in all deserializers of a join, as those of a
        mixture's corpora are.
    memory_limit : int or None
        In bytes, of what is decoded.
    """

    ledger: Ledger
    seed: int = 0
    workers: MapWorkers = field(default_factory=lambda: MapWorkers(0))
    map_versions: tuple[tuple[int, str, int], ...] = ()
    missing: Literal["error", "drop"] = "error"
    memory_limit: int | None = None
