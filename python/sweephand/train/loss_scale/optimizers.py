"""Interface that a guard needs of the optimizers it wraps."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sweephand.train.learners.finite_check import Cause, Findings
from sweephand.train.loss_scale.step_numbers import HostNumbers, Number, Reduce, StepNumbers


class StepUndone(Exception):
    """Raised inside a step with a closure to undo its changes."""


class Optimizers(ABC):
    """One or several optimizers of one framework that take a step together."""

    holds_sums = False  # gradients are sums over the samples of a step, not their mean

    def __init__(self, num_threads: int) -> None:
        self._num_threads = num_threads
        self._given_names: list[str] = []

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
    def own_names(self) -> list[str]:
        """Return their names as the optimizers know them."""

    def names(self) -> list[str]:
        """Return the names of the parameters."""
        return self._given_names or self.own_names()

    def name_parameters(self, names: Mapping[int, str]) -> None:
        """Use these names, keyed by ``id``, where a name is given."""
        own = zip(self.parameters(), self.own_names(), strict=True)
        self._given_names = [names.get(id(parameter), name) for parameter, name in own]

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

    def divide(self, gradients: list[Any], divisor: Any) -> Findings | None:
        """Divide those in a list that are not None, and return the findings."""
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not present:
            return None
        names = self.names()
        if len(names) != len(gradients):
            names = [f"gradient {i}" for i in range(len(gradients))]
        if len(present) == len(gradients):
            gradients[:], findings = self.divided(names, gradients, divisor)
            return findings
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

    def cause(self, findings: Findings | None) -> Number:
        """Return the worst that was found."""
        return Cause.OK if findings is None else findings.cause

    def norm(self, findings: Findings | None) -> Number:
        """Return the norm of all gradients together; 0 if there are none."""
        return 0.0 if findings is None else findings.gradient_norm

    @abstractmethod
    def clip(self, divisor: float) -> None:
        """Divide the gradients that the parameters hold, on their way into the step."""

    @contextmanager
    def clipped(self, divisor: float) -> Iterator[None]:
        """Divide the gradients for a step inside."""
        self.clip(divisor)
        yield

    @abstractmethod
    def take(self, num_samples: int, sweeps_ended: int) -> None:
        """Take a step with the gradients that the parameters hold."""

    @abstractmethod
    def skip(self, num_samples: int, sweeps_ended: int) -> None:
        """Count a step that is not taken."""

    def reduction(self) -> Reduce | None:
        """Return the maximum over all workers as a function; None for a single worker."""
        return None
