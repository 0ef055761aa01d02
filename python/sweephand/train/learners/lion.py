"""Lion."""

from dataclasses import dataclass

from sweephand import _core
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.learners.hyperparameters import Decay, HasBetas


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
