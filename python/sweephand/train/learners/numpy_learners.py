"""The learners for NumPy arrays: SGD, without and with momentum, Adam and AdamW."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sweephand import _core
from sweephand.base.checks import check_number
from sweephand.train.checkpoint.read_state import check_keys, reading
from sweephand.train.learners.array_learner import ArrayLearner, MakesRule
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


@dataclass(eq=False, repr=False)
class Adam(ArrayLearner):
    """Adam: rates adapted to the mean and the mean square of the gradients.

    ``m = b1 * m + (1 - b1) * g`` and ``v = b2 * v + (1 - b2) * g * g`` for the mean gradient g;
    with m' and v' corrected for their start at 0, ``w -= rate * m' / (sqrt(v') + eps)``.

    Parameters
    ----------
    params, lr_schedule, **options
        As for `Learner`.
    betas : (float or Schedule, float or Schedule)
        The decays b1 and b2; a number is the decay of a minibatch of any size.
    eps : float
        Keeps the quotient finite.

    References
    ----------
    Kingma and Ba 2015, "Adam: a method for stochastic optimization".

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.zeros(2, np.float32)
    >>> learner = sh.numpy.Adam({"w": w}, 0.1)
    >>> learner.update([np.float32([8, -4])], num_samples=4)  # the sum of 4 gradients
    >>> w.round(4)
    array([-0.1,  0.1], dtype=float32)
    """

    RULE: ClassVar[MakesRule] = _core.train.Adam
    MOMENTS = ("mean", "mean_square")

    betas: tuple[Decay, Decay] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self, *given: Any) -> None:
        super().__post_init__(*given)
        # For each parameter, the remaining weight of the zeros with which its moments began.
        self._left = [(1.0, 1.0)] * len(self.parameters)

    @property
    def beta_1(self) -> Decay:
        """The first of `betas`."""
        return self.betas[0]

    @beta_1.setter
    def beta_1(self, decay: Decay) -> None:
        self.betas = decay, self.betas[1]

    @property
    def beta_2(self) -> Decay:
        """The second of `betas`."""
        return self.betas[1]

    @beta_2.setter
    def beta_2(self, decay: Decay) -> None:
        self.betas = self.betas[0], decay

    @property
    def epsilon(self) -> float:
        """The same as ``eps``, as Keras calls it."""
        return self.eps

    @epsilon.setter
    def epsilon(self, eps: float) -> None:
        self.eps = eps

    def state_dict(self) -> dict[str, Any]:
        """Return the state of an exact resume beside the parameters, as `Learner` does."""
        return super().state_dict() | {"left": [list(pair) for pair in self._left]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, as `Learner` does."""
        super().load_state_dict(state)
        self._left = [(first, second) for first, second in state["left"]]

    def _check_state(self, state: Mapping[str, Any]) -> None:
        super()._check_state(state)
        check_keys("a learner", state, ("left",))
        with reading("a learner"):
            pairs = [(first, second) for first, second in state["left"]]
            left = [check_number("left", one) for pair in pairs for one in pair]
            if len(pairs) != len(self._left) or not all(0 <= one <= 1 for one in left):
                raise ValueError(
                    f"left must be two numbers of [0, 1] for each parameter: {left}"
                )

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[_core.train.Rule, float, list[int]]]:
        constants = self._constants(num_samples)
        alike = defaultdict(list)  # those that had as many gradients so far
        for i in members:
            first, second = self._left[i]
            self._left[i] = first * constants["beta_1"], second * constants["beta_2"]
            alike[self._left[i]].append(i)
        for (first, second), group in alike.items():
            rule = self.RULE(**constants, root_scale=1.0 / math.sqrt(1.0 - second))
            yield rule, 1.0 / (1.0 - first), group


@dataclass(eq=False, repr=False)
class AdamW(Adam):
    """`Adam` with a default decoupled weight decay of 0.01.

    References
    ----------
    Loshchilov and Hutter 2019, "Decoupled weight decay regularization".

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.zeros(2, np.float32)
    >>> learner = sh.numpy.AdamW({"w": w}, 0.1)
    >>> learner.update([np.float32([8, -4])], num_samples=4)  # the sum of 4 gradients
    >>> w.round(4)
    array([-0.1,  0.1], dtype=float32)
    """

    weight_decay: float = field(default=0.01, kw_only=True)
