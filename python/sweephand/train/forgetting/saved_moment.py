"""Positions of the checkpoints of a run, without their tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweephand.errors import StateError
from sweephand.train.checkpoint.checkpoint import STATE, read_json
from sweephand.train.checkpoint.read_state import read_count, reading


@dataclass(frozen=True)
class SavedMoment:
    """The moment of a checkpoint.

    Attributes
    ----------
    folder : Path
    number : int
    position : int
        Nominal time of the source, in samples.
    steps, samples : int
        Minibatches and label samples that were trained.
    seconds : float or None
        Of training, if a session saved it.
    source : dict
        The state of the source.

    Examples
    --------
    >>> import sweephand as sh
    >>> from pathlib import Path
    >>> moment = sh.train.SavedMoment(Path("run/checkpoint-2"), 2, 8192, 4, 8000, None, {})
    >>> moment.position, moment.steps
    (8192, 4)
    """

    folder: Path
    number: int
    position: int
    steps: int
    samples: int
    seconds: float | None
    source: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path, number: int) -> SavedMoment:
        """Read a checkpoint, but for its tensors.

        Raises
        ------
        StateError
            If it cannot be read, or holds no state of a source.
        """
        state = read_json(folder / STATE)
        source = _source_state(state)
        if source is None:
            raise StateError(
                f"{folder} holds no state of a source: a session saves it, and so does "
                "save_checkpoint(path, external_state=source.get_checkpoint_state())"
            )
        with reading("a checkpoint"):
            clock = state["trainer"]["consumed"]
            return cls(
                folder=folder,
                number=number,
                position=read_count("position", source["position"]),
                steps=read_count("steps", clock["steps"]),
                samples=read_count("samples", clock["samples"]),
                seconds=state.get("session", {}).get("seconds"),
                source=source,
            )

    @property
    def events(self) -> str:
        """Events at that time, in the words of a state."""
        return str(self.source.get("events", ""))


def _source_state(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the state of a source in that of a checkpoint, or in the user's part of it."""
    external = state.get("external")
    given = [external, *external.values()] if isinstance(external, dict) else []
    for one in (state.get("source"), *given):
        if isinstance(one, dict) and {"position", "order_version"} <= one.keys():
            return one
    return None
