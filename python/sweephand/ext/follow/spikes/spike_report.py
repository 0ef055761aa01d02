"""The report of the spikes of a run: in memory, as JSON, and as text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sweephand.ext.follow.spikes.spike import Spike
from sweephand.extend import check_path, reading, replaced_file, writing


@dataclass(frozen=True)
class SpikeReport:
    """The spikes of a run, in the order in which they were seen.

    Attributes
    ----------
    spikes : tuple of Spike
    events : tuple
        All events of the source, as `MinibatchSource` takes them: with them the same run can be
        repeated without a spike.

    Examples
    --------
    >>> import sweephand as sh
    >>> spike = sh.train.Spike(817, 52224, 52288, 817, figures={"loss": 9.1},
    ...     z_scores={"loss": 31.0}, outcome="skipped")
    >>> print(sh.train.SpikeReport((spike,)))
    1 spike
    step 817, loss 9.1 (z 31): nominal time 52224 to 52288 skipped
    """

    spikes: tuple[Spike, ...] = ()
    events: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """Return a line for each."""
        count = len(self.spikes)
        return "\n".join([f"{count} spike{'' if count == 1 else 's'}", *map(str, self.spikes)])

    @property
    def banned_ids(self) -> tuple[str, ...]:
        """All sequences that were banned because of spikes."""
        return tuple(one for spike in self.spikes for one in spike.banned_ids)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "spikes": [spike.to_dict() for spike in self.spikes],
            "events": list(self.events),
        }

    @classmethod
    def of_dict(cls, state: Any) -> Self:
        """Return the report of a dict of `to_dict`, or raise StateError."""
        with reading("spikes"):
            spikes = tuple(map(Spike.of_dict, state["spikes"]))
            return cls(spikes, tuple(state["events"]))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read the JSON file of a report.

        Raises
        ------
        FileNotFoundError
            If there is none.
        StateError
            If it is no report.
        """
        check_path("path", path)
        text = Path(path).expanduser().read_text(encoding="utf-8")
        with reading("spikes"):
            return cls.of_dict(json.loads(text))

    def write(self, path: str | Path) -> None:
        """Write it as JSON, and beside that as text in a file that ends in ``.txt``."""
        path = Path(path).expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path.with_suffix(".txt"), f"{self}\n")
        _replace(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")


def _replace(path: Path, text: str) -> None:
    """Replace the report atomically."""
    with writing(path, "the report that was there stays"), replaced_file(path) as file:
        file.write(text.encode())
