"""What a loss scale asks of the optimizers it wraps."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sweephand.train.learners.finite_check import Findings
from sweephand.train.loss_scale.worker_agreement import Reduce


class StepUndone(Exception):
    """Raised inside a step with a closure, so that its changes are undone."""


class Optimizers(Protocol):
    """One or several optimizers that take a step together."""

    def hyperparameters(self) -> set[str]:
        """Return the names that can be read and written."""

    def read(self, name: str) -> list[Any]:
        """Return the value in every group that has it."""

    def write(self, name: str, value: Any) -> None:
        """Set the value in every group that has it."""

    def parameters(self) -> list[Any]:
        """Return all parameters."""

    def names(self) -> list[str]:
        """Return their names."""

    def scaled(self, loss: Any, scale: float) -> Any:
        """Return the loss times the scale, in float32 at least."""

    def is_nan(self, loss: Any) -> Any:
        """Return whether the loss is NaN: a bool, or one that a device still computes."""

    def gradients(self) -> list[Any]:
        """Return the gradients that the parameters hold, None where there is none."""

    def zero_grad(self, set_to_none: bool) -> None:
        """Clear the gradients that the parameters hold."""

    def differentiate(self, loss: Any, parameters: Sequence[Any] | None) -> None:
        """Give these parameters the gradients of the loss, and the others none."""

    def hold(self, gradients: Sequence[Any]) -> None:
        """Give these gradients to the parameters, in their order."""

    def hold_scaled(self, gradients: Sequence[Any], scale: float) -> Findings:
        """Give gradients that carry a scale to NumPy learners, and check them."""

    def divided(
        self, names: Sequence[str], gradients: Sequence[Any], divisor: float
    ) -> tuple[list[Any], Findings]:
        """Divide gradients, in place where that is possible, and return what was found."""

    def take(self, num_samples: int, sweeps_ended: int) -> None:
        """Take a step with the gradients that the parameters hold."""

    def step_with(self, closure: Callable[[], Any]) -> None:
        """Take a step that evaluates a closure, or none if the closure raises `StepUndone`."""

    def skip(self, num_samples: int, sweeps_ended: int) -> None:
        """Count a step that is not taken."""

    def reduction(self) -> Reduce | None:
        """Return what takes the maximum over all workers, or None for a single one."""
