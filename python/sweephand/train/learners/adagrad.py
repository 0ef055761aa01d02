"""AdaGrad."""

from dataclasses import dataclass
from typing import Any

from sweephand import _core
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.learners.hyperparameters import HasEpsilon, check_rate


@dataclass(eq=False, repr=False)
class AdaGrad(HasEpsilon, ArrayLearner):
    """Rates that fall with the sum of all past squared gradients.

    ``s = s + g * g`` for the mean gradient g, ``w -= rate * g / (sqrt(s) + eps)``.

    Parameters
    ----------
    params, lr_schedule, **options
        As for `Learner`.
    eps : float
        Keeps the quotient finite.
    initial_accumulator_value : float
        What s begins with, at least 0.

    References
    ----------
    Duchi et al. 2011, "Adaptive subgradient methods for online learning and stochastic
    optimization".

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.zeros(2, np.float32)
    >>> learner = sh.numpy.AdaGrad({"w": w}, 0.1)
    >>> learner.update([np.float32([8, -4])], num_samples=4)  # the sum of 4 gradients
    >>> w.round(4)
    array([-0.1,  0.1], dtype=float32)
    """

    RULE = _core.train.AdaGrad
    MOMENTS = ("sum_of_squares",)

    eps: float = 1e-10
    initial_accumulator_value: float = 0.0

    def __post_init__(self, *given: Any) -> None:
        super().__post_init__(*given)
        start = check_rate("initial_accumulator_value", self.initial_accumulator_value)
        for sums in self._arrays.moments["sum_of_squares"]:
            sums[...] = start
