"""Outliers among steps: gradient norms or losses far above those of the steps before."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sweephand.base.checks import check_int, check_number

Quantity: TypeAlias = Literal["gradient_norm", "loss"]


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
        object.__setattr__(self, "of", tuple(dict.fromkeys(given)))
        if self.action not in ("skip", "clip"):
            raise ValueError(f"action must be 'skip' or 'clip', got {self.action!r}")
        if self.action == "clip" and "gradient_norm" not in self.of:
            raise ValueError("action='clip' clips to past norms: of must have 'gradient_norm'")
