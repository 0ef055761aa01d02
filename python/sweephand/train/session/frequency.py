"""How often something is done: every n samples, minibatches, sweeps, epochs or seconds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, get_args

from sweephand.base.checks import check_int
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
        """True if it is never due."""
        return self.count == 0
