"""RMSProp."""

from dataclasses import dataclass

from sweephand import _core
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.learners.hyperparameters import Decay, HasEpsilon


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
