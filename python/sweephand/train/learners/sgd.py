"""Stochastic gradient descent, without and with momentum."""

from dataclasses import dataclass, field

from sweephand import _core
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.learners.hyperparameters import Decay


class SGD(ArrayLearner):
    """Stochastic gradient descent: ``w -= rate * g`` for the mean gradient g.

    See `Learner` for the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> import sweephand as sh
    >>> w = np.zeros(2, np.float32)
    >>> learner = sh.numpy.SGD([w], sh.learning_parameter_schedule(0.32, minibatch_size=32))
    >>> learner.update([np.array([16, -16], np.float32)], num_samples=8)
    >>> w
    array([-0.16,  0.16], dtype=float32)
    """

    RULE = _core.train.Sgd


@dataclass(eq=False, repr=False)
class MomentumSGD(ArrayLearner):
    """Gradient descent with momentum: ``v = b * v + c * g``, ``w -= rate * v``.

    Here g is the mean gradient, b the momentum of the minibatch, and c is 1 - b with unit gain,
    so that the length of a step does not grow with the momentum, else 1.

    Parameters
    ----------
    params, lr_schedule, **options
        As for `Learner`.
    momentum : float or Schedule
        A number is the momentum of a minibatch of any size.
    unit_gain : bool
        Let c be 1 - b.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.zeros(2, np.float32)
    >>> learner = sh.numpy.MomentumSGD({"w": w}, 0.1, momentum=0.5)
    >>> learner.update([np.float32([8, -4])], num_samples=4)  # the sum of 4 gradients
    >>> w.round(4)
    array([-0.1 ,  0.05], dtype=float32)
    """

    RULE = _core.train.Momentum
    MOMENTS = ("velocity",)

    momentum: Decay = 0.9
    unit_gain: bool = field(default=True, kw_only=True)

    def _constants(self, num_samples: int) -> dict[str, float]:
        constants = super()._constants(num_samples)
        return constants | {"gain": 1.0 - constants["momentum"] if self.unit_gain else 1.0}


class Nesterov(MomentumSGD):
    """Nesterov's momentum: ``v = b * v + c * g``, ``w -= rate * (b * v + c * g)``.

    See `MomentumSGD` for the parameters.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.zeros(2, np.float32)
    >>> learner = sh.numpy.Nesterov({"w": w}, 0.1, momentum=0.5)
    >>> learner.update([np.float32([8, -4])], num_samples=4)  # the sum of 4 gradients
    >>> w.round(4)
    array([-0.15 ,  0.075], dtype=float32)
    """

    RULE = _core.train.Nesterov
