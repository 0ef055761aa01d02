"""The gradient noise scale: how many samples a minibatch has use for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, SupportsFloat

from sweephand.extend import check_decay, check_int, check_keys, check_number, reading


@dataclass(frozen=True)
class GradientNoiseScale:
    """Measurement of the gradient noise scale, by the parts of each minibatch.

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
    >>> trainer = sh.Trainer(
    ...     model, squared_error, sh.numpy.SGD(model, 0.0), sub_minibatches=4,
    ...     gradient_noise_scale=sh.train.GradientNoiseScale())
    >>> trainer.train_minibatch(sh.MinibatchSource(corpus).next_minibatch(4))
    True
    >>> round(trainer.gradient_noise_scale, 3)
    0.286
    """

    decay: float = 0.99
    frequency: int = 1

    def __post_init__(self) -> None:
        check_decay("decay", self.decay)
        check_int("frequency", self.frequency)


class PartNorms(NamedTuple):
    """Norms of the gradients of a step's parts, over all workers.

    Attributes
    ----------
    num_parts : float
        Parts with label samples.
    inverse_sizes : float
        The sum of one over the label samples of each.
    squared : float
        The sum of the squared norms of their mean gradients.
    together : float
        The squared norm of the mean gradient of all.
    """

    num_parts: SupportsFloat
    inverse_sizes: SupportsFloat
    squared: SupportsFloat
    together: SupportsFloat

    @classmethod
    def of_sums(cls, squared: Sequence[float], sizes: Sequence[int], together: float) -> Self:
        """Make them of the squared norms of gradient sums, and the label samples of each part.

        Parts without label samples are left out; `together` is that of the mean of all.
        """
        parts = [(norm, size) for norm, size in zip(squared, sizes, strict=True) if size]
        return cls(
            len(parts),
            sum(1 / size for _, size in parts),
            sum(norm / size**2 for norm, size in parts),
            together,
        )

    def estimate(self, num_samples: int) -> tuple[float, float]:
        """Return one sample's variance and the squared norm of the true gradient.

        Both are NaN of fewer than two parts, or if a norm is not finite.

        Parameters
        ----------
        num_samples : int
            Label samples of all parts.
        """
        num_parts, inverse_sizes, squared, together = map(float, self)
        if num_parts < 2 or not math.isfinite(squared + together):
            return math.nan, math.nan
        excess = squared / num_parts - together
        variance = excess / (inverse_sizes / num_parts - 1 / num_samples)
        return variance, together - variance / num_samples


class SmoothedNoiseScale:
    """The noise scale of the steps up to now.

    Variance and squared gradient are smoothed each by itself, as each estimate is too noisy for
    a quotient. Both begin at 0, which cancels out.
    """

    def __init__(self, settings: GradientNoiseScale) -> None:
        self._settings = settings
        self._variance = 0.0
        self._gradient = 0.0

    def is_due(self, steps: int) -> bool:
        """Return True if the step after `steps` is to be measured."""
        return steps % self._settings.frequency == 0

    def add(self, norms: PartNorms, num_samples: int) -> None:
        """Add a step, unless its estimate is not finite."""
        variance, gradient = norms.estimate(num_samples)
        if math.isfinite(variance) and math.isfinite(gradient):
            decay = self._settings.decay
            self._variance = decay * self._variance + (1 - decay) * variance
            self._gradient = decay * self._gradient + (1 - decay) * gradient

    @property
    def value(self) -> float:
        """The noise scale in label samples; NaN before the first measurement."""
        if self._variance == self._gradient == 0:
            return math.nan
        return quotient(self._variance, self._gradient)

    def state_dict(self) -> dict[str, Any]:
        """Return both averages, as JSON can hold them."""
        return {"variance": self._variance, "gradient": self._gradient}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, or raise StateError."""
        check_keys("a noise scale", state, self.state_dict())
        with reading("a noise scale"):
            values = [check_number(name, state[name]) for name in ("variance", "gradient")]
            if not all(map(math.isfinite, values)):
                raise ValueError(f"variance and gradient must be finite, got {values}")
        self._variance, self._gradient = values


def noise_scale(squared_norms: Sequence[float], sizes: Sequence[int], together: float) -> float:
    """Return the minibatch size at which noise and gradient are equally strong.

    It takes the squared norms of the mean gradients of minibatches, their label samples, and
    the squared norm of all of them together. It is infinite if no gradient is left without the
    noise, and NaN if a norm is not finite.

    Examples
    --------
    >>> noise_scale([5.0, 5.0], [10, 10], 3.0)
    40.0
    """
    inverse_sizes = sum(1 / size for size in sizes)
    norms = PartNorms(len(sizes), inverse_sizes, sum(squared_norms), together)
    return quotient(*norms.estimate(sum(sizes)))


def quotient(variance: float, gradient: float) -> float:
    """Return the noise scale of a variance and the squared norm of a gradient."""
    if math.isnan(variance) or math.isnan(gradient):
        return math.nan
    return max(variance, 0.0) / gradient if gradient > 0 else math.inf
