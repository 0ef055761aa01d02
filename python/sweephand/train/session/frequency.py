"""How often something is done: every so many samples, minibatches, epochs, seconds."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeAlias, get_args

from sweephand.checks import check_int
from sweephand.source.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT

Unit: TypeAlias = Literal["sample", "minibatch", "sweep", "epoch", "seconds"]
FrequencySpec: TypeAlias = int | tuple[int, Unit] | None


class Progress(Protocol):
    """How far training is, in each unit."""

    def count(self, unit: Unit) -> int:
        """Return the label samples, minibatches, ... since the start of training."""


@dataclass(frozen=True)
class Frequency:
    """Every ``count`` of a unit.

    Attributes
    ----------
    count : int or None
        0: never. None: once, at the end.
    unit : {"sample", "minibatch", "sweep", "epoch", "seconds"}
        Samples are label samples over all workers.
    """

    count: int | None
    unit: Unit = "sample"

    @classmethod
    def parse(cls, name: str, spec: object) -> Self:
        """Read what a caller gives: a number of samples, ``(n, unit)``, 0 or None.

        ``FULL_DATA_SWEEP`` is every sweep, ``INFINITELY_REPEAT`` once at the end.

        Raises
        ------
        ArgumentTypeError, ValueError
            If it is none of these.
        """
        if spec is None or spec == INFINITELY_REPEAT:
            return cls(None)
        if spec == FULL_DATA_SWEEP:
            return cls(1, "sweep")
        if not isinstance(spec, tuple):
            return cls(check_int(name, spec, least=0))
        if len(spec) != 2 or spec[1] not in get_args(Unit):
            raise ValueError(
                f"{name} must be None, a number of samples or (n, unit) with a unit of "
                f"{', '.join(get_args(Unit))}, got {spec!r}"
            )
        return cls(check_int(name, spec[0], least=0), spec[1])

    @property
    def is_never(self) -> bool:
        """Whether it never comes."""
        return self.count == 0


class Action:
    """Tells when something is due.

    It is due when progress has passed one or several multiples of the frequency since it was
    done, once for all of them; and at the end, unless it was just done. Minibatches are not cut
    at the multiples.

    Attributes
    ----------
    index : int
        Multiples that were passed when it was last done.
    """

    def __init__(self, frequency: Frequency) -> None:
        self.frequency = frequency
        self.index = 0
        self._done_at = 0  # in minibatches

    def is_due(self, progress: Progress) -> bool:
        """Whether it is due after a minibatch."""
        return self._passed(progress) != self.index

    def is_due_at_end(self, progress: Progress) -> bool:
        """Whether it is due at the end of training."""
        return not self.frequency.is_never and progress.count("minibatch") != self._done_at

    def done(self, progress: Progress) -> int:
        """Note that it was done, and return the index that it had."""
        before, self.index = self.index, self._passed(progress)
        self._done_at = progress.count("minibatch")
        return before

    def state_dict(self) -> dict[str, Any]:
        """Return where it stands."""
        return {
            "every": [self.frequency.count, self.frequency.unit],
            "index": self.index,
            "done_at": self._done_at,
        }

    def load_state_dict(self, state: dict[str, Any], progress: Progress) -> None:
        """Continue from a state; of another frequency, from where progress is."""
        is_same = state["every"] == [self.frequency.count, self.frequency.unit]
        index, done_at = (check_int(name, state[name], 0) for name in ("index", "done_at"))
        self.index = index if is_same else self._passed(progress)
        self._done_at = done_at

    def _passed(self, progress: Progress) -> int:
        if not self.frequency.count:
            return 0
        return progress.count(self.frequency.unit) // self.frequency.count
