"""The optimizers in a guard: what it needs of them, and those of NumPy; each has one guard."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from sweephand.base.checks import check_number
from sweephand.errors import ArgumentTypeError
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.learners.arrays import (
    NO_FINDINGS,
    Array,
    Findings,
    check_gradients,
    core_array,
)
from sweephand.train.loss_scale.judgement import HostNumbers, Number, Reduce, StepNumbers


class Optimizers(ABC):
    """One or several optimizers of one framework that take a step together."""

    holds_sums = False  # gradients are sums over the samples of a step, not their mean

    def __init__(self, num_threads: int) -> None:
        self._num_threads = num_threads

    @abstractmethod
    def hyperparameters(self) -> set[str]:
        """Return the names that can be read and written."""

    @abstractmethod
    def read(self, name: str) -> list[Any]:
        """Return the value in every group that has it."""

    @abstractmethod
    def write(self, name: str, value: Any) -> None:
        """Set the value in every group that has it."""

    @abstractmethod
    def parameters(self) -> list[Any]:
        """Return all parameters."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return their names, for results and errors."""

    @abstractmethod
    def scaled(self, loss: Any, scale: Any) -> Any:
        """Return the loss times the scale, in float32 at least."""

    @abstractmethod
    def is_nan(self, loss: Any) -> Any:
        """Return True for a NaN loss: a bool, or a value that a device still computes."""

    @abstractmethod
    def hold(self, gradients: Sequence[Any]) -> None:
        """Give these gradients to the parameters, in their order."""

    def hold_scaled(self, gradients: Sequence[Any], scale: float) -> Findings:
        """Give gradients that carry a scale to NumPy learners, and check them."""
        raise TypeError("update is for NumPy learners; torch has sweephand.torch.Learner")

    def in_order(self, pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
        """Return the gradients of (gradient, parameter) in the order of the parameters."""
        places = {id(parameter): i for i, parameter in enumerate(self.parameters())}
        gradients: list[Any] = [None] * len(places)
        for gradient, parameter in pairs:
            place = places.pop(id(parameter), None)
            if place is None:
                raise ValueError(
                    "a parameter is not one of the inner optimizer's or comes twice: "
                    f"shape {tuple(parameter.shape)}"
                )
            gradients[place] = gradient
        return gradients

    def keep(self, numbers: StepNumbers, verdict: str | None) -> HostNumbers:
        """Return numbers as they are kept where the verdict of each step is to be."""
        if verdict == "device":
            raise ValueError("verdict='device' is for torch optimizers; NumPy has no device")
        return HostNumbers(numbers)

    def divide(self, gradients: list[Any], divisor: Any) -> Findings:
        """Divide those in a list that are not None, and return the findings."""
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not present:
            return NO_FINDINGS
        names = self.names()
        if len(names) != len(gradients):
            names = [f"gradient {i}" for i in range(len(gradients))]
        divided, findings = self.divided(
            [names[i] for i in present], [gradients[i] for i in present], divisor
        )
        for i, gradient in zip(present, divided, strict=True):
            gradients[i] = gradient
        return findings

    @abstractmethod
    def divided(
        self, names: Sequence[str], gradients: Sequence[Any], divisor: Any
    ) -> tuple[list[Any], Findings]:
        """Divide gradients, in place where that is possible, and return the findings."""

    def cause(self, findings: Findings) -> Number:
        """Return the worst that was found."""
        return findings.cause

    def norm(self, findings: Findings) -> Number:
        """Return the norm of all gradients together; 0 if there are none."""
        return findings.gradient_norm

    @abstractmethod
    def clip(self, divisor: float) -> None:
        """Divide the gradients that the parameters hold, on their way into the step."""

    @abstractmethod
    def take(self, num_samples: int, sweeps_ended: int) -> None:
        """Take a step with the gradients that the parameters hold."""

    @abstractmethod
    def skip(self, num_samples: int, sweeps_ended: int) -> None:
        """Count a step that is not taken."""

    def reduction(self) -> Reduce | None:
        """Return the maximum over all workers as a function; None for a single worker."""
        return None


class NumpyOptimizers(Optimizers):
    """The `Optimizers` of NumPy learners."""

    holds_sums = True

    def __init__(self, learners: Sequence[ArrayLearner], num_threads: int) -> None:
        super().__init__(num_threads)
        self._learners = learners

    def hyperparameters(self) -> set[str]:
        """Return the names that can be read and written."""
        return {name for learner in self._learners for name in learner.hyperparameter_names()}

    def read(self, name: str) -> list[Any]:
        """Return the value in every learner that has it."""
        return [getattr(learner, name) for learner in self._having(name)]

    def write(self, name: str, value: Any) -> None:
        """Set the value in every learner that has it."""
        for learner in self._having(name):
            setattr(learner, name, value)

    def parameters(self) -> list[Any]:
        """Return the parameters of all learners."""
        return [array for learner in self._learners for array in learner.parameters.values()]

    def names(self) -> list[str]:
        """Return their names."""
        return [name for learner in self._learners for name in learner.parameters]

    def scaled(self, loss: Any, scale: float) -> Any:
        """Return the loss times the scale: a float, or float32 or wider as the loss is."""
        if not isinstance(loss, np.ndarray | np.generic):
            return check_number("the loss", loss) * scale
        if loss.dtype.kind not in "fV":  # V: bfloat16
            raise ArgumentTypeError(f"the loss must be of a floating type, got {loss.dtype}")
        dtype = np.float32 if loss.dtype.itemsize < 4 else loss.dtype
        with np.errstate(over="ignore"):  # an infinite loss shows in the gradients
            return np.multiply(loss.astype(dtype), scale, dtype=dtype)

    def is_nan(self, loss: Any) -> Any:
        """Return True if the loss has a NaN."""
        return bool(np.isnan(loss).any())

    def hold(self, gradients: Sequence[Any], scale: float = 1.0) -> None:
        """Keep the gradients, which carry a scale, for the step."""
        for learner, share in self._shares(gradients):
            learner.hold(share, scale)

    def hold_scaled(self, gradients: Sequence[Any], scale: float) -> Findings:
        """Keep gradients that carry a scale for the step, and check them."""
        names: list[str] = []
        arrays: list[Array] = []
        for learner, share in self._shares(gradients):
            its_names, its_arrays = learner.collect(share)
            names += its_names
            arrays += its_arrays
        findings = check_gradients(
            names, arrays, scale, in_place=False, num_threads=self._num_threads
        )
        self.hold(gradients, scale)
        return findings

    def divided(
        self, names: Sequence[str], gradients: Sequence[Any], divisor: float
    ) -> tuple[list[Any], Findings]:
        """Divide gradients in place; a scalar is replaced."""
        for name, gradient in zip(names, gradients, strict=True):
            if isinstance(gradient, np.ndarray) and not gradient.flags.writeable:
                raise ValueError(
                    f"the gradient of {name} is divided in place, but is read-only"
                )
        arrays = [
            core_array(gradient, f"the gradient of {name}")
            for name, gradient in zip(names, gradients, strict=True)
        ]
        findings = check_gradients(
            names, arrays, divisor, in_place=True, num_threads=self._num_threads
        )
        return [_written(*pair) for pair in zip(gradients, arrays, strict=True)], findings

    def clip(self, divisor: float) -> None:
        """Divide the gradients that are kept."""
        for learner in self._learners:
            learner.clip(divisor)

    def take(self, num_samples: int, sweeps_ended: int) -> None:
        """Take a step with the gradients that are kept."""
        for learner in self._learners:
            learner.take(num_samples, sweeps_ended)

    def skip(self, num_samples: int, sweeps_ended: int) -> None:
        """Count a step that is not taken."""
        for learner in self._learners:
            learner.skip(num_samples, sweeps_ended)

    def _having(self, name: str) -> list[ArrayLearner]:
        return [learner for learner in self._learners if name in learner.hyperparameter_names()]

    def _shares(self, gradients: Sequence[Any]) -> Iterator[tuple[ArrayLearner, Sequence[Any]]]:
        """Yield each learner with its part of the gradients."""
        begin = 0
        for learner in self._learners:
            end = begin + len(learner.parameters)
            yield learner, gradients[begin:end]
            begin = end


def _written(gradient: Any, array: Array) -> Any:
    """Return the values of ``array``, made by `core_array` from ``gradient``, in its type."""
    values = array.view(gradient.dtype).reshape(gradient.shape)
    if not isinstance(gradient, np.ndarray):
        return values[()]
    if not gradient.flags.c_contiguous:
        gradient[...] = values
    return gradient


def listed(optimizer: object) -> list[object]:
    """Return the optimizers in a list or tuple, or a list of the single optimizer."""
    return list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
