"""Where the time of a session goes: the model, or a stage of the loader."""

from __future__ import annotations

from collections.abc import Mapping

from sweephand.train.progress.record import Step

_LITTLE = 0.1  # of the time; a loader that keeps ahead lets the model wait so much at most
_LOADER = {
    "disk": ("read_seconds", "waiting for disk or network"),
    "decode": ("decode_seconds", "decoding"),
    "assemble": ("assemble_seconds", "assembling"),
}


class StageClock:
    """Adds up the time of steps, for a verdict in the end.

    Attributes
    ----------
    seconds, waited_seconds : float
        Of all steps since it was made, and how much passed outside of the trainer.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waited_seconds = 0.0

    def update(self, step: Step) -> None:
        """Add a step."""
        self.seconds += step.seconds
        self.waited_seconds += step.waited_seconds

    def verdict(self, before: Mapping[str, float], after: Mapping[str, float]) -> str | None:
        """Return a line with the limiting stage and its figures; None without steps.

        Parameters
        ----------
        before, after : dict
            The counts of the source's `stats` at the beginning and in the end.
        """
        if self.seconds <= 0:
            return None
        waited = self.waited_seconds / self.seconds
        if waited < _LITTLE:
            return (
                f"the model limits: it took {1 - waited:.0%} of the time, and waited for data "
                f"{waited:.0%}"
            )
        spent = {name: after[name] - before[name] for name in after}
        if spent["waited_seconds"] < self.waited_seconds / 2:
            return (
                f"what is done between steps limits: {waited:.0%} of the time passed outside "
                f"of the model, and less than half of that was waiting for data"
            )
        stages = {stage: spent[name] for stage, (name, _) in _LOADER.items()}
        total = sum(stages.values()) or 1.0
        limit = max(stages, key=lambda stage: stages[stage])
        shares = ", ".join(
            f"{words} {stages[stage] / total:.0%}" for stage, (_, words) in _LOADER.items()
        )
        return (
            f"{limit} limits: the model waited {waited:.0%} of the time for data; of the "
            f"{total:.1f} s that the loader worked, {shares}"
        )
