"""The NumPy learners whose rate is that of all weights alike."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Unpack

from sweephand import _core
from sweephand.train.learners.array_learner import ArrayLearner, LearnerOptions, Rule
from sweephand.train.learners.core_array import Array
from sweephand.train.learners.hyperparameters import Decay, HasBetas
from sweephand.train.schedules.schedule import Schedule


class SGD(ArrayLearner):
    """Stochastic gradient descent: ``w -= rate * g`` for the mean gradient g.

    See `ArrayLearner` for the parameters.

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

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[Rule, float, list[int]]]:
        yield _core.train.Sgd(), 1.0, members


class MomentumSGD(ArrayLearner):
    """Gradient descent with momentum: ``v = b * v + c * g``, ``w -= rate * v``.

    Here g is the mean gradient, b the momentum of the minibatch, and c is 1 - b with unit gain,
    so that the length of a step does not grow with the momentum, else 1.

    Parameters
    ----------
    params, lr_schedule
        As for `ArrayLearner`.
    momentum : float or Schedule
        A number is the momentum of a minibatch of any size.
    unit_gain : bool
        Whether c is 1 - b.
    **options
        As for `ArrayLearner`.
    """

    HYPERPARAMETERS: ClassVar[tuple[str, ...]] = (*ArrayLearner.HYPERPARAMETERS, "momentum")
    _MOMENTS: ClassVar[tuple[str, ...]] = ("velocity",)
    _RULE: ClassVar[type[_core.train.Momentum] | type[_core.train.Nesterov]] = (
        _core.train.Momentum
    )

    momentum: float | Schedule[float]

    def __init__(
        self,
        params: Sequence[Array] | Mapping[str, Array],
        lr_schedule: float | Schedule[float],
        momentum: float | Schedule[float] = 0.9,
        *,
        unit_gain: bool = True,
        **options: Unpack[LearnerOptions],
    ) -> None:
        super().__init__(params, lr_schedule, **options)
        self.momentum = momentum
        self.unit_gain = unit_gain

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[Rule, float, list[int]]]:
        momentum = self.pace.decay(self.momentum, num_samples)
        yield self._RULE(momentum, 1.0 - momentum if self.unit_gain else 1.0), 1.0, members


class Nesterov(MomentumSGD):
    """Nesterov's momentum: ``v = b * v + c * g``, ``w -= rate * (b * v + c * g)``.

    See `MomentumSGD` for the parameters.
    """

    _RULE = _core.train.Nesterov


class Lion(HasBetas, ArrayLearner):
    """Moves by the sign of a mean of gradients: every weight by the whole rate.

    ``w -= rate * sign(b1 * m + (1 - b1) * g)``, then ``m = b2 * m + (1 - b2) * g``, for the
    mean gradient g. Rates are 3 to 10 times smaller than those of Adam, and weight decays as
    much larger.

    Parameters
    ----------
    params, lr_schedule
        As for `ArrayLearner`.
    betas : (float or Schedule, float or Schedule)
        The decays b1 and b2; a number is the decay of a minibatch of any size.
    **options
        As for `ArrayLearner`.

    References
    ----------
    Chen et al. 2023, "Symbolic discovery of optimization algorithms".
    """

    HYPERPARAMETERS: ClassVar[tuple[str, ...]] = (
        *ArrayLearner.HYPERPARAMETERS,
        "betas",
        "beta_1",
        "beta_2",
    )
    _MOMENTS: ClassVar[tuple[str, ...]] = ("mean",)

    def __init__(
        self,
        params: Sequence[Array] | Mapping[str, Array],
        lr_schedule: float | Schedule[float],
        betas: tuple[Decay, Decay] = (0.9, 0.99),
        **options: Unpack[LearnerOptions],
    ) -> None:
        super().__init__(params, lr_schedule, **options)
        self.betas = betas

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[Rule, float, list[int]]]:
        beta_1 = self.pace.decay(self.beta_1, num_samples)
        beta_2 = self.pace.decay(self.beta_2, num_samples)
        yield _core.train.Lion(beta_1, beta_2), 1.0, members
