"""Losses that are multiplied by a scale, and gradients that are divided by it."""

from collections.abc import Mapping, Sequence
from operator import is_
from typing import TypeVar, cast

from sweephand.train.learners.finite_check import Findings
from sweephand.train.loss_scale.loss_scale import LossScale, Stage
from sweephand.train.loss_scale.optimizers import Optimizers
from sweephand.train.loss_scale.worker_agreement import Reduce

T = TypeVar("T")


class ScaledGradients(LossScale):
    """A loss scale with the optimizers whose losses and gradients it scales.

    A subclass sets the attributes before all else.
    """

    _inner: Optimizers
    _reduce: Reduce | None

    def name_parameters(self, names: Mapping[int, str]) -> None:
        """Use these names, which are keyed by ``id``, for parameters in results and errors.

        A `Trainer` does so with the names in its model.
        """
        self._inner.name_parameters(names)

    def agree_by(self, maximum: Reduce | None) -> None:
        """Judge steps with all workers by this reduction, unless the user gave another."""
        self._reduce = self._reduce or maximum

    def get_scaled_loss(self, loss: T) -> T:
        """Return the loss times the scale, in float32 or the type of the loss if that is wider.

        Parameters
        ----------
        loss : tensor, array, float or callable
            A callable becomes one that returns its scaled result.

        Raises
        ------
        RuntimeError
            If a loss was scaled before and no step was taken since, outside of `accumulate`.
        """
        if callable(loss):
            return cast(T, lambda: self.get_scaled_loss(loss()))
        if not (self._is_accumulating and self._stage is Stage.SCALED):
            self._expect(Stage.READY, "scale a loss")
        scaled = self._inner.scaled(loss, self.loss_scale)
        self._nan_loss = self._nan_loss | self._inner.is_nan(loss)
        self._stage = Stage.SCALED
        return cast(T, scaled)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients that the parameters of a torch optimizer hold, and `discard`."""
        self._inner.zero_grad(set_to_none)
        self.discard()

    def unscale_(self, num_samples: int = 1) -> None:
        """Divide the gradients that the parameters hold by the scale, and check them.

        Parameters
        ----------
        num_samples : int
            Divide by this too, in the same pass: sums of gradients become means.

        Raises
        ------
        RuntimeError
            If no loss was scaled, or the gradients are unscaled already.
        ValueError
            If no parameter has a gradient.
        TypeError
            If the parameters are NumPy arrays, which hold no gradients.
        """
        self._expect(Stage.SCALED, "unscale")
        gradients = self._inner.gradients()
        divided = self._unscaled(list(gradients), num_samples)
        if not all(map(is_, gradients, divided)):  # some could not be divided in place
            self._inner.hold(divided)

    def get_unscaled_gradients(self, gradients: Sequence[T | None]) -> list[T | None]:
        """Divide gradients by the scale in place, check them and return them.

        Parameters
        ----------
        gradients : sequence of array or tensor, or None
            A gradient for each parameter, in their order, or for some of them.

        Returns
        -------
        list
            The same objects, None where None was given. A scalar or sparse one is replaced, and
            one of torch that shares memory with another, or in itself.

        Raises
        ------
        RuntimeError
            If no loss was scaled, or gradients were unscaled already.
        ValueError
            If all are None.
        """
        self._expect(Stage.SCALED, "unscale")
        return self._unscaled(list(gradients), 1)

    def _unscaled(self, gradients: list[T | None], num_samples: int) -> list[T | None]:
        """Divide gradients in place, and keep the verdict on them."""
        with self._discarding_on_error():
            self._judge_all(self._inner.divide(gradients, self.loss_scale * num_samples))
        return gradients

    def _judge_all(self, findings: Findings | None) -> None:
        """Judge the step by its gradients, together with all workers."""
        reduce = self._reduce or self._inner.reduction()
        if findings is None and reduce is None:
            names = ", ".join(self._inner.names()[:5])
            raise ValueError(f"no parameter has a gradient: {names}")
        self._judge(findings, reduce)
