"""AdaDelta."""

from dataclasses import dataclass

from sweephand import _core
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.learners.hyperparameters import Decay, HasEpsilon


@dataclass(eq=False, repr=False)
class AdaDelta(HasEpsilon, ArrayLearner):
    """Moves as long as the recent ones, by the recent gradients.

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
