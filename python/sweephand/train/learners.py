"""The NumPy learners: plain, with momentum, and with adapted rates."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from sweephand import _core
from sweephand.errors import StateError
from sweephand.train.findings import Array
from sweephand.train.learner import Learner, LearnerOptions, Rule
from sweephand.train.schedules import Schedule


class SGD(Learner):
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

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[Rule, float, list[int]]]:
        yield _core.Sgd(), 1.0, members


class MomentumSGD(Learner):
    """Gradient descent with momentum: ``v = b * v + c * g``, ``w -= rate * v``.

    Here g is the mean gradient, b the momentum of the minibatch, and c is 1 - b with unit gain,
    so that the length of a step does not grow with the momentum, else 1.

    Parameters
    ----------
    params, lr_schedule
        As for `Learner`.
    momentum : float or Schedule
        A number is the momentum of a minibatch of any size.
    unit_gain : bool
        Whether c is 1 - b.
    **options
        As for `Learner`.
    """

    HYPERPARAMETERS: ClassVar[tuple[str, ...]] = (*Learner.HYPERPARAMETERS, "momentum")
    _MOMENTS: ClassVar[tuple[str, ...]] = ("velocity",)
    _RULE: ClassVar[type[_core.Momentum] | type[_core.Nesterov]] = _core.Momentum

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

    _RULE = _core.Nesterov


class Adam(Learner):
    """Adam: rates adapted to the mean and the mean square of the gradients.

    ``m = b1 * m + (1 - b1) * g`` and ``v = b2 * v + (1 - b2) * g * g`` for the mean gradient g;
    with m' and v' corrected for their start at 0, ``w -= rate * m' / (sqrt(v') + eps)``.

    Parameters
    ----------
    params, lr_schedule
        As for `Learner`.
    betas : (float or Schedule, float or Schedule)
        The decays b1 and b2; a number is the decay of a minibatch of any size.
    eps : float
        Keeps the quotient finite.
    **options
        As for `Learner`.

    References
    ----------
    Kingma and Ba 2015, "Adam: a method for stochastic optimization".
    """

    HYPERPARAMETERS: ClassVar[tuple[str, ...]] = (
        *Learner.HYPERPARAMETERS,
        "betas",
        "beta_1",
        "beta_2",
        "eps",
        "epsilon",
    )
    _MOMENTS: ClassVar[tuple[str, ...]] = ("mean", "mean_square")

    beta_1: float | Schedule[float]
    beta_2: float | Schedule[float]
    epsilon: float

    def __init__(
        self,
        params: Sequence[Array] | Mapping[str, Array],
        lr_schedule: float | Schedule[float],
        betas: tuple[float | Schedule[float], float | Schedule[float]] = (0.9, 0.999),
        eps: float = 1e-8,
        **options: Unpack[LearnerOptions],
    ) -> None:
        super().__init__(params, lr_schedule, **options)
        self.beta_1, self.beta_2 = betas
        self.epsilon = eps
        # For each parameter, what is left of the zeros with which its moments began.
        self._left = [(1.0, 1.0)] * len(self._weights)

    @property
    def betas(self) -> tuple[float | Schedule[float], float | Schedule[float]]:
        """Both decays."""
        return self.beta_1, self.beta_2

    @betas.setter
    def betas(self, betas: tuple[float | Schedule[float], float | Schedule[float]]) -> None:
        self.beta_1, self.beta_2 = betas

    @property
    def eps(self) -> float:
        """The same as ``epsilon``."""
        return self.epsilon

    @eps.setter
    def eps(self, eps: float) -> None:
        self.epsilon = eps

    def state_dict(self) -> dict[str, Any]:
        """Return what an exact resume needs beside the parameters, as `Learner` does."""
        return super().state_dict() | {"left": [list(pair) for pair in self._left]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, as `Learner` does."""
        super().load_state_dict(state)
        self._left = [(first, second) for first, second in state["left"]]

    def _check_state(self, state: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        super()._check_state(state, arrays)
        if "left" not in state:
            raise StateError("the state of a learner lacks left")

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[Rule, float, list[int]]]:
        beta_1 = self.pace.decay(self.beta_1, num_samples)
        beta_2 = self.pace.decay(self.beta_2, num_samples)
        alike = defaultdict(list)  # those that had as many gradients so far
        for i in members:
            first, second = self._left[i]
            self._left[i] = first * beta_1, second * beta_2
            alike[self._left[i]].append(i)
        for (first, second), group in alike.items():
            rule = _core.Adam(beta_1, beta_2, self.epsilon, 1.0 / math.sqrt(1.0 - second))
            yield rule, 1.0 / (1.0 - first), group


class AdamW(Adam):
    """`Adam` with a decoupled weight decay of 0.01 unless told otherwise.

    References
    ----------
    Loshchilov and Hutter 2019, "Decoupled weight decay regularization".
    """

    def __init__(
        self,
        params: Sequence[Array] | Mapping[str, Array],
        lr_schedule: float | Schedule[float],
        betas: tuple[float | Schedule[float], float | Schedule[float]] = (0.9, 0.999),
        eps: float = 1e-8,
        **options: Unpack[LearnerOptions],
    ) -> None:
        options.setdefault("weight_decay", 0.01)
        super().__init__(params, lr_schedule, betas, eps, **options)
