"""Outliers among steps: gradient norms or losses far above those of the steps before."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sweephand.base.checks import check_int, check_number
from sweephand.errors import StateError
from sweephand.train.checkpoint.read_state import reading

Quantity: TypeAlias = Literal["gradient_norm", "loss"]
NOTHING = -math.inf  # the logarithm of a value that is not positive, or not known


@dataclass(frozen=True)
class Outliers:
    """A rule for steps that are outliers: the third cause beside ``"inf"`` and ``"nan"``.

    The logarithms of gradient norm and loss have an exponential mean and spread. A step is an
    outlier if one of them lies more than ``z`` spreads above its mean. Only applied steps
    change the statistics, and only values that are positive.

    Parameters
    ----------
    z : float
        Spreads above the mean from which a step is an outlier.
    of : sequence of {"gradient_norm", "loss"}
        The quantities that are watched. All workers use the largest of theirs.
    warmup : int
        Applied steps before the first can be an outlier.
    decay : float
        Weight of the statistics so far when a step comes in, between 0 and 1.
    floor : float
        The least spread: of 0.05, differences below 5 % count as none.
    action : {"skip", "clip"}
        Skip an outlier, or take it with its gradients clipped to the mean of past norms. A
        clipped one changes the statistics as if it lay on the boundary.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> learner = sh.numpy.SGD({"w": np.zeros(1, np.float32)}, 0.1)
    >>> guard = sh.StepGuard(learner, outliers=sh.Outliers(of=["gradient_norm"], warmup=2))
    >>> [guard.update([np.float32([g])], 1).cause for g in (1, 1.01, 0.99, 9, 1)]
    ['ok', 'ok', 'ok', 'outlier', 'ok']
    """

    z: float = 6.0
    of: Sequence[Quantity] = ("gradient_norm", "loss")
    warmup: int = 100
    decay: float = 0.99
    floor: float = 0.05
    action: Literal["skip", "clip"] = "skip"

    def __post_init__(self) -> None:
        for name, most in (("z", math.inf), ("decay", 1.0), ("floor", math.inf)):
            if not 0 < check_number(name, getattr(self, name)) < most:
                raise ValueError(
                    f"{name} must lie between 0 and {most}, got {getattr(self, name)!r}"
                )
        check_int("warmup", self.warmup, least=2)
        given = [self.of] if isinstance(self.of, str) else [*self.of]
        if not given or not {*given} <= {"gradient_norm", "loss"}:
            raise ValueError(f"of must be of 'gradient_norm' and 'loss', got {self.of!r}")
        object.__setattr__(self, "of", tuple(given))
        if self.action not in ("skip", "clip"):
            raise ValueError(f"action must be 'skip' or 'clip', got {self.action!r}")
        if self.action == "clip" and "gradient_norm" not in self.of:
            raise ValueError("action='clip' clips to past norms: of must have 'gradient_norm'")


@dataclass
class Statistic:
    """Exponential mean and variance of a logarithm, exact from the first value on."""

    count: int = 0
    weight: float = 0.0  # of all values together: 1 - decay ** count
    mean: float = 0.0
    variance: float = 0.0

    def add(self, value: float, decay: float) -> None:
        """Change by a value."""
        self.count += 1
        self.weight = decay * self.weight + (1.0 - decay)
        share = (1.0 - decay) / self.weight
        difference = value - self.mean
        self.mean += share * difference
        self.variance = (1.0 - share) * (self.variance + share * difference * difference)

    def bound(self, rule: Outliers) -> float:
        """Return the largest logarithm that is not an outlier."""
        if self.count < rule.warmup:
            return math.inf
        return self.mean + rule.z * max(math.sqrt(self.variance), rule.floor)


class OutlierWatch:
    """The statistics of a run, by which its steps are judged."""

    def __init__(self, rule: Outliers) -> None:
        self.rule = rule
        self.statistics = {name: Statistic() for name in rule.of}

    def logarithms(self, gradient_norm: float | None, loss: float | None) -> list[float]:
        """Return the logarithms of what is watched, `NOTHING` where there is none."""
        values = {"gradient_norm": gradient_norm, "loss": loss}
        watched = [values[name] for name in self.statistics]
        return [math.log(x) if x is not None and 0 < x < math.inf else NOTHING for x in watched]

    def is_outlier(self, logarithms: Sequence[float]) -> bool:
        """Return True if one lies above its bound."""
        bounds = [one.bound(self.rule) for one in self.statistics.values()]
        return any(x > bound for x, bound in zip(logarithms, bounds, strict=True))

    def usual_norm(self) -> float:
        """Return the mean of past norms."""
        return math.exp(self.statistics["gradient_norm"].mean)

    def add(self, logarithms: Sequence[float]) -> None:
        """Change the statistics by an applied step."""
        for x, one in zip(logarithms, self.statistics.values(), strict=True):
            if x > NOTHING:
                one.add(min(x, one.bound(self.rule)), self.rule.decay)

    def state_dict(self) -> dict[str, list[float]]:
        """Return four numbers for each quantity."""
        return {
            name: [one.count, one.weight, one.mean, one.variance]
            for name, one in self.statistics.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; a quantity that it lacks starts afresh."""
        with reading("the statistics of outliers"):
            read = {name: _read(state[name]) for name in self.statistics if name in state}
        self.statistics = {name: read.get(name, Statistic()) for name in self.statistics}


def _read(numbers: Sequence[Any]) -> Statistic:
    count, *floats = numbers
    weight, mean, variance = (check_number("a statistic", one) for one in floats)
    check_int("a count", count, least=0)
    if not (0 <= weight <= 1 and math.isfinite(mean) and 0 <= variance < math.inf):
        raise StateError(f"no statistic has the numbers {list(numbers)}")
    return Statistic(count, weight, mean, variance)
