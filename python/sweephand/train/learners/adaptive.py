"""Adaptive learners besides `Adam`."""

from dataclasses import dataclass
from typing import Any

from sweephand import _core
from sweephand.train.arguments import check_rate
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.learners.hyperparameters import Decay, HasBetas, HasEpsilon


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


@dataclass(eq=False, repr=False)
class RMSProp(HasEpsilon, ArrayLearner):
    """Rates that fall with the recent gradients.

    ``s = rho * s + (1 - rho) * g * g`` for the mean gradient g,
    ``v = momentum * v + g / (sqrt(s) + eps)``, ``w -= rate * v``.

    Parameters
    ----------
    params, lr_schedule, **options
        As for `Learner`.
    rho : float or Schedule
        The decay of s; a number is the decay of a minibatch of any size.
    eps : float
        Keeps the quotient finite.
    momentum : float or Schedule
        The decay of v, likewise.

    References
    ----------
    Tieleman and Hinton 2012, "Lecture 6.5: rmsprop".

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.zeros(2, np.float32)
    >>> learner = sh.numpy.RMSProp({"w": w}, 0.1)
    >>> learner.update([np.float32([8, -4])], num_samples=4)  # the sum of 4 gradients
    >>> w.round(4)
    array([-1.,  1.], dtype=float32)
    """

    RULE = _core.train.RmsProp
    MOMENTS = ("mean_square", "velocity")

    rho: Decay = 0.99
    eps: float = 1e-8
    momentum: Decay = 0.0


@dataclass(eq=False, repr=False)
class AdaDelta(HasEpsilon, ArrayLearner):
    """Moves as long as the recent moves, scaled by the recent gradients.

    ``s = rho * s + (1 - rho) * g * g`` for the mean gradient g,
    ``d = sqrt(t + eps) / sqrt(s + eps) * g``, ``t = rho * t + (1 - rho) * d * d``,
    ``w -= rate * d``.

    Parameters
    ----------
    params, lr_schedule, **options
        As for `Learner`.
    rho : float or Schedule
        The decay of s and t; a number is the decay of a minibatch of any size.
    eps : float
        What the first moves are made of.

    References
    ----------
    Zeiler 2012, "ADADELTA: an adaptive learning rate method".

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.zeros(2, np.float32)
    >>> learner = sh.numpy.AdaDelta({"w": w}, 1.0)
    >>> learner.update([np.float32([8, -4])], num_samples=4)  # the sum of 4 gradients
    >>> w.round(4)
    array([-0.0032,  0.0032], dtype=float32)
    """

    RULE = _core.train.AdaDelta
    MOMENTS = ("mean_square", "mean_square_move")

    rho: Decay = 0.9
    eps: float = 1e-6


@dataclass(eq=False, repr=False)
class Lion(HasBetas, ArrayLearner):
    """Moves by the sign of a mean of gradients: every weight by the whole rate.

    ``w -= rate * sign(b1 * m + (1 - b1) * g)``, then ``m = b2 * m + (1 - b2) * g``, for the
    mean gradient g. Rates are 3 to 10 times smaller than those of Adam, and weight decays as
    much larger.

    Parameters
    ----------
    params, lr_schedule, **options
        As for `Learner`.
    betas : (float or Schedule, float or Schedule)
        The decays b1 and b2; a number is the decay of a minibatch of any size.

    References
    ----------
    Chen et al. 2023, "Symbolic discovery of optimization algorithms".

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.zeros(2, np.float32)
    >>> learner = sh.numpy.Lion({"w": w}, 0.01)
    >>> learner.update([np.float32([8, -4])], num_samples=4)  # the sum of 4 gradients
    >>> w.round(4)
    array([-0.01,  0.01], dtype=float32)
    """

    RULE = _core.train.Lion
    MOMENTS = ("mean",)

    betas: tuple[Decay, Decay] = (0.9, 0.99)
