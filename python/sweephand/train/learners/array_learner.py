"""The learners for NumPy arrays: SGD, without and with momentum, Adam and AdamW."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, TypeAlias

from sweephand import _core
from sweephand.base.checks import check_int, check_number
from sweephand.errors import StateError
from sweephand.source.schedules import Schedule
from sweephand.train.learners.arrays import Array, LearnedArrays
from sweephand.train.learners.learner import (
    HYPERPARAMETERS,
    PARTS,
    Decay,
    Learner,
    check_counts,
    check_hyperparameter,
    report_restored,
)
from sweephand.train.learners.schedules import read_value, schedule_state
from sweephand.train.states import check_keys, reading

MakesRule: TypeAlias = Callable[..., _core.train.Rule]
Params: TypeAlias = Sequence[Array] | Mapping[str, Array]


@dataclass(eq=False, repr=False)
class ArrayLearner(Learner):
    """The base of the learners for NumPy arrays; use its subclasses.

    A learner is given the *sum* of the gradients over the samples of a minibatch. It sees their
    mean, and its rate is ``x * n / M`` for n samples, a scheduled rate x and its reference size
    M, or x if there is none: for `SGD` a move by ``x / M`` times the sum, whatever n is.

    It computes in float32, or in float64 for parameters of float64. Those of 16 bits are the
    rounded image of float32 weights that the learner keeps, of bfloat16 as the 16 bits that
    they lack; what others write to them is taken over, to half a unit of bfloat16.

    A subclass says its rule, its moments and, as fields, its hyperparameters, whose names are
    those of the rule's constants.

    Parameters
    ----------
    params : sequence of ndarray, or mapping from name to ndarray
        The parameters: writable C-contiguous arrays of float16, bfloat16 (of ml_dtypes),
        float32 or float64, changed in place.
    lr_schedule : float or Schedule
        The learning rate; a number is a rate without a reference size.
    weight_decay : float
        Decoupled: an update first multiplies the weights by ``1 - rate * weight_decay``.
    num_threads : int
        Threads that share an update. The result does not depend on them.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.zeros(2, np.float32)
    >>> rate = sh.learning_parameter_schedule(0.1, minibatch_size=2)
    >>> learner = sh.numpy.SGD({"w": w}, rate)
    >>> isinstance(learner, sh.numpy.Learner), learner.learning_rate
    (True, 0.1)
    >>> learner.update([np.float32([8, -4])], num_samples=4)  # by rate / 2 times the sum
    >>> w
    array([-0.4,  0.2], dtype=float32)
    """

    RULE: ClassVar[MakesRule]
    MOMENTS: ClassVar[tuple[str, ...]] = ()

    params: InitVar[Params]
    lr_schedule: InitVar[float | Schedule[float]]
    _: KW_ONLY
    weight_decay: float = 0.0
    num_threads: InitVar[int] = 1

    def __post_init__(
        self, params: Params, lr_schedule: float | Schedule[float], num_threads: int
    ) -> None:
        super().__init__(lr_schedule)
        self._arrays = LearnedArrays(params, self.MOMENTS)
        self._num_threads = check_int("num_threads", num_threads)
        # Sums of gradients, and their scale, that wait for a step; see `update`.
        self._held: tuple[Sequence[Array | None], float] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Check a hyperparameter whenever it is set."""
        super().__setattr__(name, _checked(name, value) if name in HYPERPARAMETERS else value)

    @property
    def parameters(self) -> dict[str, Array]:
        """The parameters by name; those of a sequence are called "0", "1", ..."""
        return self._arrays.by_name

    @property
    def lr(self) -> float:
        """The same as `learning_rate`."""
        return self.learning_rate

    @lr.setter
    def lr(self, rate: float) -> None:
        self.learning_rate = rate

    @classmethod
    def hyperparameter_names(cls) -> set[str]:
        """Return the names under which a `StepGuard` reads and sets them."""
        own = {field.name for field in fields(cls)} & HYPERPARAMETERS
        return {"learning_rate", "lr"} | own | set(_names_of(cls))

    def update(
        self,
        gradient_sums: Sequence[Array | None],
        num_samples: int,
        sweeps_ended: int = 0,
    ) -> None:
        """Change the parameters by one minibatch.

        Parameters
        ----------
        gradient_sums : sequence of ndarray or None
            For each parameter, in order, the sum of the gradients over the samples: an array of
            its shape, of float16, bfloat16, float32 or float64; None leaves it as it is.
        num_samples : int
            Label samples of the minibatch, over all workers; at least 1.
        sweeps_ended : int
            Sweeps that ended in the minibatch.
        """
        self.hold(gradient_sums, 1.0)
        self.take(num_samples, sweeps_ended)

    def hold(self, gradient_sums: Sequence[Array | None], scale: float) -> None:
        """Keep the sums of gradients, as `update` takes them, for the next step."""
        # Past __setattr__, which looks at every name: this happens in every step.
        self.__dict__["_held"] = (gradient_sums, scale)

    def clip(self, divisor: float) -> None:
        """Divide the gradients that were given to `hold`, on their way into the step."""
        assert self._held is not None
        sums, scale = self._held
        self.hold(sums, scale * divisor)

    def take(self, num_samples: int, sweeps_ended: int) -> None:
        """Take a step with the gradients that were given to `hold`, and count it."""
        assert self._held is not None
        sums, scale = self._held
        self.__dict__["_held"] = None
        check_counts(num_samples, sweeps_ended)
        gradients = self._arrays.collect(sums)
        factor = 1.0 / (num_samples * scale)
        rate = self.pace.rate(num_samples)
        decay = 1.0 - rate * self.weight_decay
        for rule, correction, members in self._rules(list(gradients), num_samples):
            options = _core.train.UpdateOptions(
                factor, decay, rate * correction, self._num_threads
            )
            self._arrays.update(rule, options, {i: gradients[i] for i in members})
        self.pace.advance(num_samples, sweeps_ended, applied=True)

    def skip(self, num_samples: int, sweeps_ended: int) -> None:
        """Count a step that is not taken, and drop its gradients."""
        self._held = None
        super().skip(num_samples, sweeps_ended)

    def collect(self, gradients: Sequence[Array | None]) -> tuple[list[str], list[Array]]:
        """Return names and arrays of the gradients that are there, as the core takes them."""
        collected = self._arrays.collect(gradients)
        return [self._arrays.given_names[i] for i in collected], list(collected.values())

    def name_parameters(self, names: Sequence[str]) -> None:
        """Use these names for the parameters in results and errors, in their order."""
        self._arrays.given_names = names

    def schedules(self) -> dict[str, Schedule[float]]:
        """Return the schedules of other hyperparameters, by name."""
        own = self._hyperparameters()
        return {name: value for name, value in own.items() if isinstance(value, Schedule)}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of an exact resume beside the parameters.

        All but ``"arrays"``, copies of moments and weights, can be held by JSON.
        """
        return super().state_dict() | {
            "learner": type(self).__name__,
            "hyperparameters": self._hyperparameter_state(),
            "arrays": self._arrays.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state with its hyperparameters, or raise StateError.

        Parameters of 32 bits are restored before, those of 16 are set from their weights.
        """
        self._check_state(state)
        names = self._hyperparameters()
        with reading("a learner"):
            theirs = state["hyperparameters"]
            values = {name: _checked(name, read_value(theirs[name])) for name in names}
        super().load_state_dict(state)
        for name, present in names.items():
            report_restored(name, values[name], present)
            setattr(self, name, values[name])
        self._arrays.restore(state["arrays"])

    def keep_hyperparameters(self, state: dict[str, Any]) -> None:
        """Put the present rates and hyperparameters into a state, in place of its own."""
        super().keep_hyperparameters(state)
        state["hyperparameters"] = self._hyperparameter_state()

    def _hyperparameter_state(self) -> dict[str, Any]:
        return {name: schedule_state(one) for name, one in self._hyperparameters().items()}

    def _check_state(self, state: Mapping[str, Any]) -> None:
        check_keys("a learner", state, ("learner", "pace", "hyperparameters", "arrays"))
        if state["learner"] != type(self).__name__:
            raise StateError(
                f"the state is of a {state['learner']}, this is a {type(self).__name__}"
            )
        self._arrays.check(state["arrays"])

    def _hyperparameters(self) -> dict[str, Any]:
        """Return all but the learning rate, by the names that states and rules use."""
        return {name: getattr(self, name) for name in _names_of(type(self))}

    def _constants(self, num_samples: int) -> dict[str, float]:
        """Return the constants of the rule for a minibatch, by name."""
        return {
            name: self.pace.decay(getattr(self, name), num_samples)
            for name in _names_of(type(self))
            if name != "weight_decay"
        }

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[_core.train.Rule, float, list[int]]]:
        """Yield rules, a factor for the rate of each, and the parameters it is for."""
        yield self.RULE(**self._constants(num_samples)), 1.0, members


@cache
def _names_of(kind: type[ArrayLearner]) -> tuple[str, ...]:
    """Return the names that states and rules use for the hyperparameters of a learner."""
    own = [field.name for field in fields(kind) if field.name in HYPERPARAMETERS]
    return tuple(part for name in own for part in PARTS.get(name, (name,)))


def _checked(name: str, value: Any) -> Any:
    """Return a hyperparameter, which may be a schedule, or raise if it is out of its range."""
    if name == "betas":
        beta_1, beta_2 = value
        return _checked("beta_1", beta_1), _checked("beta_2", beta_2)
    if not isinstance(value, Schedule):
        check_hyperparameter(name, value)
    return value


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
    so that the length of a step does not grow with the momentum, else 1. See `Learner` for the
    other parameters.

    Parameters
    ----------
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
    See `Learner` for the other parameters.

    Parameters
    ----------
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
