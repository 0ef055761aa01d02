"""The gradient noise scale: how many samples a minibatch has use for."""

import math
from collections.abc import Mapping
from typing import Any

from sweephand.extend import (
    Observer,
    PartNorms,
    check_decay,
    check_int,
    decode,
    reading,
)
from sweephand.train import Step


class GradientNoiseScale(Observer):
    """Measurement of the gradient noise scale, by the parts of each minibatch.

    It is one of the progress writers of a trainer, whose records show it to the others as
    ``gradient_noise_scale``. There must be at least two parts, of sub-minibatches and workers.

    With the mean gradients g_i of k parts of n_i label samples each, and g of all N, the
    variance of one sample's gradient (its trace) and the squared norm of the true gradient are
    S = (mean of |g_i|^2 - |g|^2) / (mean of 1 / n_i - 1 / N) and |G|^2 = |g|^2 - S / N, both
    without bias. Each is smoothed by itself over the steps; the noise scale is S / |G|^2, in
    label samples. Minibatches far below it save samples, far above it steps.

    Parts are the sub-minibatches of every worker. Sequences are never cut: a correlation
    between their samples counts as noise of a sample. Training is the same to the last bit as
    without the measurement, which costs a pass over the gradients for each part, and one for
    all.

    Parameters
    ----------
    decay : float
        Weight of a measurement after the next one, in ``[0, 1)``.
    frequency : int
        Steps between two measurements.

    References
    ----------
    McCandlish et al. 2018, "An empirical model of large-batch training", appendix A.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"labels": np.float32([1, 2, 3, 4])})
    >>> model = {"mean": np.zeros(1, np.float32)}
    >>> def squared_error(model, minibatch):
    ...     error = model["mean"] - minibatch["labels"].values
    ...     return float(error @ error), [2 * error.sum(keepdims=True)]
    >>> noise = sh.train.GradientNoiseScale()
    >>> trainer = sh.Trainer(
    ...     model, squared_error, sh.numpy.SGD(model, 0.0), noise, sub_minibatches=4)
    >>> trainer.train_minibatch(sh.MinibatchSource(corpus).next_minibatch(4))
    True
    >>> round(noise.value, 3)
    0.286
    """

    is_shared = True

    def __init__(self, decay: float = 0.99, frequency: int = 1) -> None:
        self._decay = check_decay("decay", decay)
        self.part_norms_every = check_int("frequency", frequency)
        self._variance = 0.0  # both begin at 0, which cancels out
        self._gradient = 0.0

    @property
    def value(self) -> float:
        """The noise scale of the steps up to now, in label samples.

        NaN before the first measurement; infinite while no gradient is seen in the noise.
        """
        if self._variance == self._gradient == 0:
            return math.nan
        gradient = self._gradient
        return max(self._variance, 0.0) / gradient if gradient > 0 else math.inf

    def figures(self, step: Step, norms: PartNorms | None) -> dict[str, float]:
        """Add a step, unless its estimate is not finite, and return the noise scale."""
        if norms is not None:
            variance, gradient = estimate(norms, step.num_samples)
            if math.isfinite(variance) and math.isfinite(gradient):
                decay = self._decay
                self._variance = decay * self._variance + (1 - decay) * variance
                self._gradient = decay * self._gradient + (1 - decay) * gradient
        return {"gradient_noise_scale": self.value}

    def state_dict(self) -> dict[str, Any]:
        """Return both averages, as JSON can hold them."""
        return {"variance": self._variance, "gradient": self._gradient}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, or raise StateError; an empty one starts afresh."""
        state = state or {"variance": 0.0, "gradient": 0.0}
        with reading("a noise scale"):
            values = [decode(float, state[name], name) for name in ("variance", "gradient")]
            if not all(map(math.isfinite, values)):
                raise ValueError(f"variance and gradient must be finite, got {values}")
        self._variance, self._gradient = values


def estimate(norms: PartNorms, num_samples: int) -> tuple[float, float]:
    """Return one sample's variance and the squared norm of the true gradient.

    Of that many label samples; NaN of fewer than two parts, or if a norm is not finite.
    """
    num_parts, inverse_sizes, squared, together = map(float, norms)
    if num_parts < 2 or not math.isfinite(squared + together):
        return math.nan, math.nan
    excess = squared / num_parts - together
    variance = excess / (inverse_sizes / num_parts - 1 / num_samples)
    return variance, together - variance / num_samples
