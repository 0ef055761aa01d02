"""The base of the NumPy learners: arrays updated in place from sums of gradients."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.errors import StateError
from sweephand.source.schedules import Schedule
from sweephand.train.checkpoint.read_state import check_keys, reading
from sweephand.train.learners.finite_check import Array, core_array, finite_norm
from sweephand.train.learners.hyperparameters import (
    HYPERPARAMETERS,
    PARTS,
    checked,
    report_restored,
)
from sweephand.train.learners.learner import Learner, check_counts
from sweephand.train.learners.schedules import read_value, schedule_state


class LearnedArrays:
    """Parameters that are updated in place, with moments that begin with zeros.

    The weights of a parameter are the array itself, or for one of float16 a float32 array of
    which it is the rounded image. For one of bfloat16 they are float32 masters too, rounded
    half up, of which only the 16 bits are kept that the parameter lacks.
    """

    def __init__(
        self, params: Sequence[Array] | Mapping[str, Array], moments: Sequence[str]
    ) -> None:
        self.by_name = _named(params)
        self._names = list(self.by_name)
        self._given_names = self._names
        self._images = [core_array(array, name) for name, array in self.by_name.items()]
        self._weights = [
            _kept(image, array)
            for image, array in zip(self._images, self.by_name.values(), strict=True)
        ]
        self.moments = {
            kind: [
                np.zeros(weights.shape, np.promote_types(weights.dtype, np.float32))
                for weights in self._weights
            ]
            for kind in moments
        }

    def name(self, names: Sequence[str]) -> None:
        """Use these names, in order, in results and errors."""
        self._given_names = [name for name, _ in zip(names, self._names, strict=True)]

    def names_of(self, members: Iterable[int]) -> list[str]:
        """Return the names of parameters, which are given by number."""
        return [self._given_names[i] for i in members]

    def collect(self, gradients: Sequence[Array | None]) -> dict[int, Array]:
        """Return the gradients that are there as the core takes them, by parameter number.

        TypeError or ValueError is raised if they do not fit the parameters, or all are None.
        """
        if len(gradients) != len(self._names):
            raise ValueError(
                f"wanted a gradient or None for each of {len(self._names)} parameters, "
                f"got {len(gradients)}"
            )
        collected = {}
        shapes = [array.shape for array in self.by_name.values()]
        for i, (name, gradient) in enumerate(zip(self._given_names, gradients, strict=True)):
            if gradient is None:
                continue
            if np.shape(gradient) != shapes[i]:
                raise ValueError(
                    f"the gradient of {name} must have shape {shapes[i]}, "
                    f"got {np.shape(gradient)}"
                )
            collected[i] = core_array(gradient, f"the gradient of {name}")
        if not collected:
            raise ValueError(f"no parameter has a gradient: {', '.join(self._given_names[:5])}")
        return collected

    def update(
        self,
        rule: _core.train.Rule,
        options: _core.train.UpdateOptions,
        gradients: Mapping[int, Array],
    ) -> None:
        """Move the parameters with these numbers by their gradients."""
        weights = [self._weights[i] for i in gradients]
        moments = [[arrays[i] for i in gradients] for arrays in self.moments.values()]
        first, second, *_ = [*moments, weights, weights]
        images = [self._images[i] for i in gradients]
        _core.train.update(
            rule, options, weights, images, list(gradients.values()), first, second
        )

    def reload(self) -> None:
        """Round the float32 weights of parameters of 16 bits to the values of these."""
        for array, weights in zip(self.by_name.values(), self._weights, strict=True):
            weights[...] = array if weights.dtype == np.float32 else 0

    def state(self) -> dict[str, Array]:
        """Return copies of weights and moments by ``"kind/parameter"``."""
        for array, weights in zip(self.by_name.values(), self._weights, strict=True):
            if array.dtype == np.float16:  # outside changes to it are taken over
                with np.errstate(over="ignore"):  # rounded as an update does
                    written = array != weights.astype(array.dtype)
                weights[written] = array[written]
        return {key: array.copy() for key, array in self._own().items()}

    def check(self, state: Mapping[str, Array]) -> None:
        """Raise `StateError` if a state is of other parameters."""
        check_keys("a learner's arrays", state, ())
        own = self._own()
        differing = sorted(own.keys() ^ state.keys()) or [
            key
            for key, array in own.items()
            if (array.shape, array.dtype)
            != (np.shape(state[key]), getattr(state[key], "dtype", None))
        ]
        if differing:
            raise StateError(f"the state is of other parameters: {', '.join(differing[:5])}")

    def restore(self, state: Mapping[str, Array]) -> None:
        """Set weights and moments, and parameters of 16 bits from their weights."""
        own = self._own()
        for key, array in own.items():
            array[...] = state[key]
        for i, (name, array) in enumerate(self.by_name.items()):
            if (weights := own.get(f"weights/{name}")) is None:
                continue
            if self._weights[i].dtype == np.uint16:
                bits = weights.view(np.uint32)
                self._weights[i][...] = bits.astype(np.uint16)
                self._images[i][...] = (bits + np.uint32(0x8000)) >> np.uint32(16)
            else:
                with np.errstate(over="ignore"):  # rounded as an update does
                    array[...] = weights.astype(array.dtype)

    def _own(self) -> dict[str, Array]:
        """Return the arrays that are kept beside the parameters, by kind and parameter."""
        arrays = {
            f"weights/{name}": _masters(image, weights)
            for name, weights, image in zip(
                self._names, self._weights, self._images, strict=True
            )
            if weights is not image
        }
        for kind, moments in self.moments.items():
            arrays |= {f"{kind}/{name}": moments[i] for i, name in enumerate(self._names)}
        return arrays


def _kept(image: Array, array: Array) -> Array:
    """Return what is kept of the weights of a parameter, which the core sees as an image."""
    if image.dtype == np.uint16:
        return np.zeros(array.shape, np.uint16)
    return array.astype(np.float32) if image.dtype == np.float16 else image


def _masters(image: Array, weights: Array) -> Array:
    """Return the float32 weights of a parameter of 16 bits."""
    if weights.dtype != np.uint16:
        return weights
    upper = image.reshape(weights.shape).astype(np.uint32) - (weights >> np.uint16(15))
    return np.asarray(upper << np.uint32(16) | weights).view(np.float32)


def _named(params: Sequence[Array] | Mapping[str, Array]) -> dict[str, Array]:
    """Name the parameters and refuse those that cannot be updated in place."""
    if isinstance(params, Mapping):
        named = dict(params)
    elif isinstance(params, Sequence):
        named = {str(i): array for i, array in enumerate(params)}
    else:
        raise TypeError(f"params must be a sequence or mapping, got {type(params).__name__}")
    if not named:
        raise ValueError("a learner needs at least one parameter, got none")
    for name, array in named.items():
        core_array(array, f"parameter {name}")
        if not array.flags.writeable:
            raise ValueError(f"parameter {name} must be a writable array")
        if not array.flags.c_contiguous:
            raise ValueError(f"parameter {name} must be C-contiguous")
    by_address = sorted(named, key=lambda name: named[name].ctypes.data)
    for name, following in pairwise(by_address):
        if named[name].ctypes.data + named[name].nbytes > named[following].ctypes.data:
            raise ValueError(f"parameters {name} and {following} share memory")
    return named


MakesRule: TypeAlias = Callable[..., _core.train.Rule]
Params: TypeAlias = Sequence[Array] | Mapping[str, Array]


@dataclass(eq=False, repr=False)
class ArrayLearner(Learner):
    """The base of the learners for NumPy arrays; use its subclasses.

    A learner is given the *sum* of the gradients over the samples of a minibatch. It sees their
    mean, and its rate is ``x * n / M`` for n samples, a scheduled rate x and its reference size
    M, or x if there is none: for `SGD` a move by ``x / M`` times the sum, whatever n is.

    The arithmetic is done in one pass over memory, in float32, or in float64 for parameters of
    float64. For parameters of float16 the learner keeps float32 weights of its own, of which
    the parameters are the rounded image; what others write to them is taken over. Those of
    bfloat16 have exact float32 masters too (rounded to nearest, ties away from zero), of which
    the learner keeps the 16 bits that they lack; what others write to them is taken over to
    half a unit, or exactly after `reload_parameters`.

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
    clip_norm_per_sample, clip_norm_per_minibatch : float, optional
        The largest norm, over all gradients together, that the mean or the sum may have; a
        larger one is scaled down to it. At most one of them.
    single_sweep_steps : bool
        Count one sweep for an update in which several end, as CNTK does.
    num_threads : int
        Threads that share an update. The result does not depend on them.

    Raises
    ------
    TypeError
        If a parameter is no array of such a dtype, or an option of a wrong type.
    ValueError
        If there is no parameter, one is not writable or not contiguous, two of them share
        memory, or an option is out of its range.

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
    clip_norm_per_sample: InitVar[float | None] = None
    clip_norm_per_minibatch: InitVar[float | None] = None
    single_sweep_steps: InitVar[bool] = False
    num_threads: InitVar[int] = 1

    def __post_init__(
        self,
        params: Params,
        lr_schedule: float | Schedule[float],
        clip_norm_per_sample: float | None,
        clip_norm_per_minibatch: float | None,
        single_sweep_steps: bool,
        num_threads: int,
    ) -> None:
        super().__init__(
            lr_schedule, clip_norm_per_sample, clip_norm_per_minibatch, single_sweep_steps
        )
        self._arrays = LearnedArrays(params, self.MOMENTS)
        self._num_threads = check_int("num_threads", num_threads)
        # Sums of gradients, and their scale, that wait for a step; see `update`.
        self._held: tuple[Sequence[Array | None], float] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Check a hyperparameter whenever it is set."""
        if name in HYPERPARAMETERS:
            value = checked(name, value)
        super().__setattr__(name, value)

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
        *,
        scale: float = 1.0,
    ) -> None:
        """Change the parameters by one minibatch.

        Parameters
        ----------
        gradient_sums : sequence of ndarray or None
            For each parameter, in order, the sum of the gradients over the samples: an array of
            its shape, of float16, bfloat16, float32 or float64. A parameter with None is left
            as it is.
        num_samples : int
            Label samples of the minibatch, over all workers; at least 1.
        sweeps_ended : int
            Sweeps that ended in the minibatch.
        scale : float
            The loss scale that the gradients carry; it is taken out on the way.

        Raises
        ------
        TypeError, ValueError
            If the gradients do not fit the parameters, or a number is out of its range; nothing
            is changed then.
        FloatingPointError
            If there is clipping and a gradient is not finite; nothing is changed then.
        """
        self.hold(gradient_sums, scale)
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
        factor = self._clip_factor(gradients, num_samples, scale) / (num_samples * scale)
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
        return self._arrays.names_of(collected), list(collected.values())

    def name_parameters(self, names: Sequence[str]) -> None:
        """Use these names for the parameters in results and errors, in their order.

        A `Trainer` does so with the names in its model; `parameters` and states keep theirs.
        """
        self._arrays.name(names)

    def reload_parameters(self) -> None:
        """Round the float32 weights of parameters of 16 bits to the values of these.

        An update does so by itself for those elements that someone else has written to.
        """
        self._arrays.reload()

    def schedules(self) -> dict[str, Schedule[float]]:
        """Return the schedules of other hyperparameters, by name."""
        own = self._hyperparameters()
        return {name: value for name, value in own.items() if isinstance(value, Schedule)}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of an exact resume beside the parameters.

        Returns
        -------
        dict
            ``"arrays"``: copies of moments and float32 weights by ``"kind/parameter"``; all
            else can be held by JSON.
        """
        return super().state_dict() | {
            "learner": type(self).__name__,
            "hyperparameters": self._hyperparameter_state(),
            "arrays": self._arrays.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, with parameters that are restored already.

        Parameters of 16 bits are set from the float32 weights in the state. Rates and
        hyperparameters become those of the state, which is logged where they differ.

        Raises
        ------
        StateError
            If the state is of another kind of learner or of other parameters, with what
            differs; nothing is changed then.
        """
        self._check_state(state)
        values = self._read_hyperparameters(state)
        super().load_state_dict(state)
        for name, present in self._hyperparameters().items():
            report_restored(name, values[name], present)
            setattr(self, name, values[name])
        self._arrays.restore(state["arrays"])

    def keep_hyperparameters(self, state: dict[str, Any]) -> None:
        """Put the present rates and hyperparameters into a state, in place of its own."""
        super().keep_hyperparameters(state)
        state["hyperparameters"] = self._hyperparameter_state()

    def _check_state(self, state: Mapping[str, Any]) -> None:
        check_keys("a learner", state, ("learner", "pace", "hyperparameters", "arrays"))
        if state["learner"] != type(self).__name__:
            raise StateError(
                f"the state is of a {state['learner']}, this is a {type(self).__name__}"
            )
        self._arrays.check(state["arrays"])

    def _read_hyperparameters(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of a state, checked, by name."""
        with reading("a learner"):
            theirs = state["hyperparameters"]
            names = self._hyperparameters()
            return {name: checked(name, read_value(theirs[name])) for name in names}

    def _hyperparameters(self) -> dict[str, Any]:
        """Return all but the learning rate, by the names that states and rules use."""
        return {name: getattr(self, name) for name in _names_of(type(self))}

    def _hyperparameter_state(self) -> dict[str, Any]:
        values = self._hyperparameters()
        return {name: schedule_state(value) for name, value in values.items()}

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

    def _clip_factor(
        self, gradients: Mapping[int, Array], num_samples: int, scale: float
    ) -> float:
        """Return the factor that brings the gradients to the largest norm allowed."""
        limit = self.largest_norm(num_samples)
        if limit is None:
            return 1.0
        names, arrays = self._arrays.names_of(gradients), list(gradients.values())
        norm = finite_norm(names, arrays, scale, self._num_threads)
        return limit / norm if norm > limit else 1.0


@cache
def _names_of(kind: type[ArrayLearner]) -> tuple[str, ...]:
    """Return the names that states and rules use for the hyperparameters of a learner."""
    own = [field.name for field in fields(kind) if field.name in HYPERPARAMETERS]
    return tuple(part for name in own for part in PARTS.get(name, (name,)))
