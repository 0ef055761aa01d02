"""The NumPy learners that adapt the rate of every weight to its gradients."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from sweephand import _core
from sweephand.checks import check_number
from sweephand.train.checkpoint.read_state import check_keys, reading
from sweephand.train.learners.array_learner import ArrayLearner, LearnerOptions, Rule
from sweephand.train.learners.core_array import Array
from sweephand.train.learners.hyperparameters import Decay, HasBetas, HasEpsilon, check_rate
from sweephand.train.schedules.schedule import Schedule


class Adam(HasBetas, HasEpsilon, ArrayLearner):
    """Adam: rates adapted to the mean and the mean square of the gradients.

    ``m = b1 * m + (1 - b1) * g`` and ``v = b2 * v + (1 - b2) * g * g`` for the mean gradient g;
    with m' and v' corrected for their start at 0, ``w -= rate * m' / (sqrt(v') + eps)``.

    Parameters
    ----------
    params, lr_schedule
        As for `ArrayLearner`.
    betas : (float or Schedule, float or Schedule)
        The decays b1 and b2; a number is the decay of a minibatch of any size.
    eps : float
        Keeps the quotient finite.
    **options
        As for `ArrayLearner`.

    References
    ----------
    Kingma and Ba 2015, "Adam: a method for stochastic optimization".
    """

    HYPERPARAMETERS: ClassVar[tuple[str, ...]] = (
        *ArrayLearner.HYPERPARAMETERS,
        "betas",
        "beta_1",
        "beta_2",
        "eps",
        "epsilon",
    )
    _MOMENTS: ClassVar[tuple[str, ...]] = ("mean", "mean_square")

    def __init__(
        self,
        params: Sequence[Array] | Mapping[str, Array],
        lr_schedule: float | Schedule[float],
        betas: tuple[Decay, Decay] = (0.9, 0.999),
        eps: float = 1e-8,
        **options: Unpack[LearnerOptions],
    ) -> None:
        super().__init__(params, lr_schedule, **options)
        self.beta_1, self.beta_2 = betas
        self.epsilon = eps
        # For each parameter, what is left of the zeros with which its moments began.
        self._left = [(1.0, 1.0)] * len(self._weights)

    def state_dict(self) -> dict[str, Any]:
        """Return what an exact resume needs beside the parameters, as `ArrayLearner` does."""
        return super().state_dict() | {"left": [list(pair) for pair in self._left]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, as `ArrayLearner` does."""
        super().load_state_dict(state)
        self._left = [(first, second) for first, second in state["left"]]

    def _check_state(self, state: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        super()._check_state(state, arrays)
        check_keys("a learner", state, ("left",))
        with reading("a learner"):
            left = [
                check_number("left", one)
                for first, second in state["left"]
                for one in (first, second)
            ]
            if len(left) != 2 * len(self._weights) or not all(0 <= one <= 1 for one in left):
                raise ValueError(
                    f"left must be two numbers of [0, 1] for each parameter: {left}"
                )

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
            yield self._rule(beta_1, beta_2, second), 1.0 / (1.0 - first), group

    def _rule(self, beta_1: float, beta_2: float, left: float) -> Rule:
        """Return the rule; `left` is what is left of the zeros of the mean square."""
        return _core.train.Adam(beta_1, beta_2, self.epsilon, 1.0 / math.sqrt(1.0 - left))


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
        betas: tuple[Decay, Decay] = (0.9, 0.999),
        eps: float = 1e-8,
        **options: Unpack[LearnerOptions],
    ) -> None:
        options.setdefault("weight_decay", 0.01)
        super().__init__(params, lr_schedule, betas, eps, **options)


class AdaMax(Adam):
    """Adam by the largest gradient in place of the mean square.

    ``m = b1 * m + (1 - b1) * g`` and ``u = max(b2 * u, |g| + eps)`` for the mean gradient g;
    with m' corrected for its start at 0, ``w -= rate * m' / u``.

    See `Adam` for the parameters.

    References
    ----------
    Kingma and Ba 2015, "Adam: a method for stochastic optimization", section 7.1.
    """

    _MOMENTS: ClassVar[tuple[str, ...]] = ("mean", "largest")

    def _rule(self, beta_1: float, beta_2: float, left: float) -> Rule:
        return _core.train.AdaMax(beta_1, beta_2, self.epsilon)


class AdaGrad(HasEpsilon, ArrayLearner):
    """Rates that fall with all gradients so far.

    ``s = s + g * g`` for the mean gradient g, ``w -= rate * g / (sqrt(s) + eps)``.

    Parameters
    ----------
    params, lr_schedule
        As for `ArrayLearner`.
    eps : float
        Keeps the quotient finite.
    initial_accumulator_value : float
        What s begins with, at least 0.
    **options
        As for `ArrayLearner`.

    References
    ----------
    Duchi et al. 2011, "Adaptive subgradient methods for online learning and stochastic
    optimization".
    """

    HYPERPARAMETERS: ClassVar[tuple[str, ...]] = (
        *ArrayLearner.HYPERPARAMETERS,
        "eps",
        "epsilon",
    )
    _MOMENTS: ClassVar[tuple[str, ...]] = ("sum_of_squares",)

    def __init__(
        self,
        params: Sequence[Array] | Mapping[str, Array],
        lr_schedule: float | Schedule[float],
        eps: float = 1e-10,
        initial_accumulator_value: float = 0.0,
        **options: Unpack[LearnerOptions],
    ) -> None:
        super().__init__(params, lr_schedule, **options)
        self.epsilon = eps
        start = check_rate("initial_accumulator_value", initial_accumulator_value)
        for sums in self._moments["sum_of_squares"]:
            sums[...] = start

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[Rule, float, list[int]]]:
        yield _core.train.AdaGrad(self.epsilon), 1.0, members


class RMSProp(HasEpsilon, ArrayLearner):
    """Rates that fall with the recent gradients.

    ``s = rho * s + (1 - rho) * g * g`` for the mean gradient g,
    ``v = momentum * v + g / (sqrt(s) + eps)``, ``w -= rate * v``.

    Parameters
    ----------
    params, lr_schedule
        As for `ArrayLearner`.
    rho : float or Schedule
        The decay of s; a number is the decay of a minibatch of any size.
    eps : float
        Keeps the quotient finite.
    momentum : float or Schedule
        The decay of v, likewise.
    **options
        As for `ArrayLearner`.

    References
    ----------
    Tieleman and Hinton 2012, "Lecture 6.5: rmsprop".
    """

    HYPERPARAMETERS: ClassVar[tuple[str, ...]] = (
        *ArrayLearner.HYPERPARAMETERS,
        "rho",
        "eps",
        "epsilon",
        "momentum",
    )
    _MOMENTS: ClassVar[tuple[str, ...]] = ("mean_square", "velocity")

    rho: Decay
    momentum: Decay

    def __init__(
        self,
        params: Sequence[Array] | Mapping[str, Array],
        lr_schedule: float | Schedule[float],
        rho: Decay = 0.99,
        eps: float = 1e-8,
        momentum: Decay = 0.0,
        **options: Unpack[LearnerOptions],
    ) -> None:
        super().__init__(params, lr_schedule, **options)
        self.rho = rho
        self.epsilon = eps
        self.momentum = momentum

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[Rule, float, list[int]]]:
        rho = self.pace.decay(self.rho, num_samples)
        momentum = self.pace.decay(self.momentum, num_samples)
        yield _core.train.RmsProp(rho, momentum, self.epsilon), 1.0, members


class AdaDelta(HasEpsilon, ArrayLearner):
    """Moves as long as the recent ones, by the recent gradients.

    ``s = rho * s + (1 - rho) * g * g`` for the mean gradient g,
    ``d = sqrt(t + eps) / sqrt(s + eps) * g``, ``t = rho * t + (1 - rho) * d * d``,
    ``w -= rate * d``.

    Parameters
    ----------
    params, lr_schedule
        As for `ArrayLearner`.
    rho : float or Schedule
        The decay of s and t; a number is the decay of a minibatch of any size.
    eps : float
        What the first moves are made of.
    **options
        As for `ArrayLearner`.

    References
    ----------
    Zeiler 2012, "ADADELTA: an adaptive learning rate method".
    """

    HYPERPARAMETERS: ClassVar[tuple[str, ...]] = (
        *ArrayLearner.HYPERPARAMETERS,
        "rho",
        "eps",
        "epsilon",
    )
    _MOMENTS: ClassVar[tuple[str, ...]] = ("mean_square", "mean_square_move")

    rho: Decay

    def __init__(
        self,
        params: Sequence[Array] | Mapping[str, Array],
        lr_schedule: float | Schedule[float],
        rho: Decay = 0.9,
        eps: float = 1e-6,
        **options: Unpack[LearnerOptions],
    ) -> None:
        super().__init__(params, lr_schedule, **options)
        self.rho = rho
        self.epsilon = eps

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[Rule, float, list[int]]]:
        rho = self.pace.decay(self.rho, num_samples)
        yield _core.train.AdaDelta(rho, self.epsilon), 1.0, members
