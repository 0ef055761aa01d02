"""The norms of the gradients of a step's parts, and the noise scale that they give."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self, SupportsFloat


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
    return noise_quotient(*norms.estimate(sum(sizes)))


def noise_quotient(variance: float, gradient: float) -> float:
    """Return the noise scale of a variance and the squared norm of a gradient."""
    if math.isnan(variance) or math.isnan(gradient):
        return math.nan
    return max(variance, 0.0) / gradient if gradient > 0 else math.inf
