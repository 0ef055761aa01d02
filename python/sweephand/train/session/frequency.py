"""How often something is done: every n samples, minibatches, sweeps, epochs or seconds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, get_args

from sweephand.checks import check_int
from sweephand.source.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT

FrequencyUnit: TypeAlias = Literal["sample", "minibatch", "sweep", "epoch", "seconds"]
# How far training has come: label samples, minibatches, ... since its start.
Count: TypeAlias = Callable[[FrequencyUnit], int]
FrequencySpec: TypeAlias = int | tuple[int, FrequencyUnit] | None


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
    unit: FrequencyUnit = "sample"

    @classmethod
    def parse(cls, name: str, spec: object) -> Self:
        """Parse a frequency: a number of samples, ``(n, unit)``, 0 or None.

        ``FULL_DATA_SWEEP`` is every sweep, ``INFINITELY_REPEAT`` once at the end. Anything else
        is an ArgumentTypeError or ValueError.
        """
        if spec is None or spec == INFINITELY_REPEAT:
            return cls(None)
        if spec == FULL_DATA_SWEEP:
            return cls(1, "sweep")
        if not isinstance(spec, tuple):
            return cls(check_int(name, spec, least=0))
        if len(spec) != 2 or spec[1] not in get_args(FrequencyUnit):
            raise ValueError(
                f"{name} must be None, a number of samples or (n, unit) with a unit of "
                f"{', '.join(get_args(FrequencyUnit))}, got {spec!r}"
            )
        return cls(check_int(name, spec[0], least=0), spec[1])

    @property
    def is_never(self) -> bool:
        """Whether it is never due."""
        return self.count == 0


# The state of an action that a run did not have.
NEVER_DONE = {"every": None, "index": 0, "done_at": 0}


class Action:
    """Something that is due at a frequency.

    It is due when progress has passed one or several multiples of the frequency since it was
    done, once for all of them; and at the end, unless it was just done. Minibatches are not cut
    at the multiples. Its index is how many multiples were passed when it was last done.
    """

    def __init__(self, frequency: Frequency) -> None:
        self.frequency = frequency
        self.index = 0
        self._done_at = 0  # in minibatches

    def is_due(self, count: Count) -> bool:
        """Whether it is due after a minibatch."""
        return self._passed(count) != self.index

    def is_due_at_end(self, count: Count) -> bool:
        """Whether it is due at the end of training."""
        return not self.frequency.is_never and count("minibatch") != self._done_at

    def done(self, count: Count) -> int:
        """Mark it as done, and return the index before."""
        before, self.index = self.index, self._passed(count)
        self._done_at = count("minibatch")
        return before

    def state_dict(self) -> dict[str, Any]:
        """Return its state, as JSON can hold it."""
        return {
            "every": [self.frequency.count, self.frequency.unit],
            "index": self.index,
            "done_at": self._done_at,
        }

    def load_state_dict(self, state: dict[str, Any], count: Count) -> None:
        """Continue from a state, or from the present progress if the frequency was another."""
        is_same = state["every"] == [self.frequency.count, self.frequency.unit]
        index, done_at = (check_int(name, state[name], 0) for name in ("index", "done_at"))
        self.index = index if is_same else self._passed(count)
        self._done_at = done_at

    def _passed(self, count: Count) -> int:
        if not self.frequency.count:
            return 0
        return count(self.frequency.unit) // self.frequency.count
