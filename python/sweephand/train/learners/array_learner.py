"""The base of the NumPy learners: arrays updated in place from sums of gradients."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypedDict

import numpy as np

from sweephand import _core
from sweephand.checks import check_int
from sweephand.errors import StateError
from sweephand.train.checkpoint.read_state import check_keys, reading
from sweephand.train.learners.core_array import Array, core_array
from sweephand.train.learners.finite_check import check_gradients
from sweephand.train.learners.hyperparameters import check_hyperparameter
from sweephand.train.learners.learner import Learner, check_counts
from sweephand.train.schedules.schedule import Schedule
from sweephand.train.schedules.schedule_state import read_value, schedule_state

Rule: TypeAlias = (
    _core.train.Sgd
    | _core.train.Momentum
    | _core.train.Nesterov
    | _core.train.Lion
    | _core.train.Adam
    | _core.train.AdaMax
    | _core.train.AdaGrad
    | _core.train.RmsProp
    | _core.train.AdaDelta
)

logger = logging.getLogger("sweephand")


class HeldGradients(NamedTuple):
    """Sums of gradients that wait for a step; see `ArrayLearner.update`."""

    sums: Sequence[Array | None]
    scale: float
    norm: float | None


class LearnerOptions(TypedDict, total=False):
    """The options of every learner; see `ArrayLearner`."""

    weight_decay: float
    clip_norm_per_sample: float | None
    clip_norm_per_minibatch: float | None
    single_sweep_steps: bool
    num_threads: int


class ArrayLearner(Learner):
    """The base of the learners for NumPy arrays; make one of the subclasses.

    A learner is given the *sum* of the gradients over the samples of a minibatch. It sees their
    mean, and its rate is ``x * n / M`` for n samples, a scheduled rate x and its reference size
    M, or x if there is none: for `SGD` a move by ``x / M`` times the sum, whatever n is.

    The arithmetic is done in one pass over memory, in float32, or in float64 for parameters of
    float64. For parameters of 16 bits the learner keeps float32 weights of its own, of which
    the parameters are the rounded image; what others write to them is taken over.

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

    Attributes
    ----------
    parameters : dict
        The parameters by name; those of a sequence are called "0", "1", ...

    Raises
    ------
    TypeError
        If a parameter is no array of such a dtype, or an option of a wrong type.
    ValueError
        If there is no parameter, one is not writable or not contiguous, two of them share
        memory, or an option is out of its range.
    """

    #: The names under which a `LossScaleOptimizer` reads and sets them.
    HYPERPARAMETERS: ClassVar[tuple[str, ...]] = ("learning_rate", "lr", "weight_decay")
    _MOMENTS: ClassVar[tuple[str, ...]] = ()

    weight_decay: float

    def __init__(
        self,
        params: Sequence[Array] | Mapping[str, Array],
        lr_schedule: float | Schedule[float],
        *,
        weight_decay: float = 0.0,
        clip_norm_per_sample: float | None = None,
        clip_norm_per_minibatch: float | None = None,
        single_sweep_steps: bool = False,
        num_threads: int = 1,
    ) -> None:
        self.parameters = _named(params)
        super().__init__(
            lr_schedule, clip_norm_per_sample, clip_norm_per_minibatch, single_sweep_steps
        )
        self._held: HeldGradients | None = None
        self.weight_decay = weight_decay
        self._num_threads = check_int("num_threads", num_threads)
        self._names = list(self.parameters)
        self._told_names = self._names
        self._images = [core_array(array, name) for name, array in self.parameters.items()]
        self._weights = [
            image if image.dtype in (np.float32, np.float64) else array.astype(np.float32)
            for image, array in zip(self._images, self.parameters.values(), strict=True)
        ]
        self._moments = {
            moment: [np.zeros_like(weights) for weights in self._weights]
            for moment in self._MOMENTS
        }

    def __setattr__(self, name: str, value: object) -> None:
        """Check a hyperparameter whenever it is set."""
        if name in self.HYPERPARAMETERS and name != "betas" and not isinstance(value, Schedule):
            check_hyperparameter(name, value)  # betas are two that are set one by one
        super().__setattr__(name, value)

    @property
    def lr(self) -> float:
        """The same as `learning_rate`."""
        return self.learning_rate

    @lr.setter
    def lr(self, rate: float) -> None:
        self.learning_rate = rate

    def update(
        self,
        gradient_sums: Sequence[Array | None],
        num_samples: int,
        sweeps_ended: int = 0,
        *,
        scale: float = 1.0,
        norm: float | None = None,
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
        norm : float, optional
            The norm of the gradient sums without the scale, if it is known: clipping then needs
            no pass of its own.

        Raises
        ------
        TypeError, ValueError
            If the gradients do not fit the parameters, or a number is out of its range; nothing
            is changed then.
        FloatingPointError
            If there is clipping and a gradient is not finite; nothing is changed then.
        """
        self.hold(gradient_sums, scale, norm)
        self.take(num_samples, sweeps_ended)

    def hold(
        self, gradient_sums: Sequence[Array | None], scale: float, norm: float | None
    ) -> None:
        """Keep the sums of gradients, as `update` takes them, for the next step."""
        self._held = HeldGradients(gradient_sums, scale, norm)

    def take(self, num_samples: int, sweeps_ended: int) -> None:
        """Take a step with the gradients that were given to `hold`, and count it."""
        assert self._held is not None
        (sums, scale, norm), self._held = self._held, None
        check_counts(num_samples, sweeps_ended)
        gradients = self.collect(sums)
        factor = self._clip_factor(gradients, num_samples, scale, norm) / (num_samples * scale)
        rate = self.pace.rate(num_samples)
        decay = 1.0 - rate * self.weight_decay
        for rule, correction, members in self._rules(list(gradients), num_samples):
            step = _core.train.Step(factor, decay, rate * correction, self._num_threads)
            self._apply(rule, step, members, gradients)
        self.pace.advance(num_samples, sweeps_ended, applied=True)

    def skip(self, num_samples: int, sweeps_ended: int) -> None:
        """Count a step that is not taken, and drop its gradients."""
        self._held = None
        super().skip(num_samples, sweeps_ended)

    def collect(self, gradients: Sequence[Array | None]) -> dict[int, Array]:
        """Return the gradients that are there as the core takes them, by parameter number.

        Raises
        ------
        TypeError, ValueError
            If they do not fit the parameters, or all are None.
        """
        if len(gradients) != len(self._names):
            raise ValueError(
                f"wanted a gradient or None for each of {len(self._names)} parameters, "
                f"got {len(gradients)}"
            )
        collected = {}
        shapes = [array.shape for array in self.parameters.values()]
        for i, (name, gradient) in enumerate(zip(self._told_names, gradients, strict=True)):
            if gradient is None:
                continue
            shape = shapes[i]
            if np.shape(gradient) != shape:
                raise ValueError(
                    f"the gradient of {name} must have shape {shape}, got {np.shape(gradient)}"
                )
            collected[i] = core_array(gradient, f"the gradient of {name}")
        if not collected:
            raise ValueError(f"no parameter has a gradient: {', '.join(self._told_names[:5])}")
        return collected

    def name_parameters(self, names: Sequence[str]) -> None:
        """Call the parameters so in results and errors, in their order.

        A `Trainer` does so with the names in its model; `parameters` and states keep theirs.
        """
        self._told_names = [name for name, _ in zip(names, self._names, strict=True)]

    def names_of(self, members: Iterable[int]) -> list[str]:
        """Return what parameters are called, by number."""
        return [self._told_names[i] for i in members]

    def reload_parameters(self) -> None:
        """Round the float32 weights of parameters of 16 bits to what these hold.

        An update does so by itself for those elements that someone else has written to.
        """
        for array, weights in zip(self.parameters.values(), self._weights, strict=True):
            weights[...] = array

    def state_dict(self) -> dict[str, Any]:
        """Return what an exact resume needs beside the parameters.

        Returns
        -------
        dict
            ``"arrays"``: copies of moments and float32 weights by ``"kind/parameter"``; all
            else can be held by JSON.
        """
        self._take_over()
        arrays = {key: array.copy() for key, array in self._arrays().items()}
        return super().state_dict() | {
            "learner": type(self).__name__,
            "hyperparameters": {
                name: schedule_state(value) for name, value in self._hyperparameters().items()
            },
            "arrays": arrays,
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
        arrays = self._arrays()
        self._check_state(state, arrays)
        values = self._read_hyperparameters(state)
        super().load_state_dict(state)
        for name, present in self._hyperparameters().items():
            if values[name] != present:
                logger.warning(
                    "%s is %s as in the checkpoint, not %s", name, values[name], present
                )
            setattr(self, name, values[name])
        for key, array in arrays.items():
            array[...] = state["arrays"][key]
        for name, array in self.parameters.items():
            if (weights := arrays.get(f"weights/{name}")) is not None:
                with np.errstate(over="ignore"):  # rounded as an update does
                    array[...] = weights.astype(array.dtype)

    def _check_state(self, state: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        check_keys("a learner", state, ("learner", "pace", "hyperparameters", "arrays"))
        if state["learner"] != type(self).__name__:
            raise StateError(
                f"the state is of a {state['learner']}, this is a {type(self).__name__}"
            )
        theirs = state["arrays"]
        check_keys("a learner's arrays", theirs, ())
        differing = sorted(arrays.keys() ^ theirs.keys()) or [
            key
            for key, array in arrays.items()
            if (array.shape, array.dtype)
            != (np.shape(theirs[key]), getattr(theirs[key], "dtype", None))
        ]
        if differing:
            raise StateError(f"the state is of other parameters: {', '.join(differing[:5])}")

    def _read_hyperparameters(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of a state, checked, by name."""
        with reading("a learner"):
            theirs = state["hyperparameters"]
            values = {name: read_value(theirs[name]) for name in self._hyperparameters()}
            for name, value in values.items():
                if not isinstance(value, Schedule):
                    check_hyperparameter(name, value)
        return values

    def _take_over(self) -> None:
        """Let weights become what others have written to their parameters of 16 bits."""
        for array, weights in zip(self.parameters.values(), self._weights, strict=True):
            if array.dtype.itemsize == 2:
                with np.errstate(over="ignore"):  # rounded as an update does
                    written = array != weights.astype(array.dtype)
                weights[written] = array[written]

    def schedules(self) -> dict[str, Schedule[float]]:
        """Return the schedules of other hyperparameters, by name."""
        own = self._hyperparameters()
        return {name: value for name, value in own.items() if isinstance(value, Schedule)}

    def _hyperparameters(self) -> dict[str, Any]:
        """Return all but the learning rate, each under its first name."""
        own = vars(self)  # other names for them are properties
        return {name: own[name] for name in self.HYPERPARAMETERS if name in own}

    def _arrays(self) -> dict[str, Array]:
        """Return what the learner itself holds, by kind and parameter."""
        arrays = {
            f"weights/{name}": weights
            for name, weights, image in zip(
                self._names, self._weights, self._images, strict=True
            )
            if weights is not image
        }
        for kind, moments in self._moments.items():
            arrays |= {f"{kind}/{self._names[i]}": moments[i] for i in range(len(moments))}
        return arrays

    def _rules(
        self, members: list[int], num_samples: int
    ) -> Iterator[tuple[Rule, float, list[int]]]:
        """Yield rules, a factor for the rate of each, and the parameters it is for."""
        raise NotImplementedError

    def _apply(
        self,
        rule: Rule,
        step: _core.train.Step,
        members: list[int],
        gradients: dict[int, Array],
    ) -> None:
        weights = [self._weights[i] for i in members]
        moments = [[arrays[i] for i in members] for arrays in self._moments.values()]
        first, second, *_ = [*moments, weights, weights]
        images = [self._images[i] for i in members]
        _core.train.update(
            rule, step, weights, images, [gradients[i] for i in members], first, second
        )

    def _clip_factor(
        self, gradients: dict[int, Array], num_samples: int, scale: float, norm: float | None
    ) -> float:
        """Return what brings the gradients to the largest norm that they may have."""
        limit = self._clipping.limit_of_sum(num_samples)
        if limit is None:
            return 1.0
        if norm is None:
            norm = self._finite_norm(gradients, scale)
        return limit / norm if norm > limit else 1.0

    def _finite_norm(self, gradients: dict[int, Array], scale: float) -> float:
        findings = check_gradients(
            self.names_of(gradients),
            list(gradients.values()),
            scale,
            in_place=False,
            num_threads=self._num_threads,
        )
        if findings.bad_parameters:
            named = ", ".join(findings.bad_parameters)
            raise FloatingPointError(f"gradients that are not finite: {named}")
        return findings.gradient_norm


def _named(params: Sequence[Array] | Mapping[str, Array]) -> dict[str, Array]:
    """Name the parameters and refuse what cannot be updated in place."""
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
