"""Clipping: the largest norm that gradients may have."""

import math


class Clipping:
    """The largest norm of the mean or of the sum of the gradients, if either is limited."""

    def __init__(self, per_sample: float | None, per_minibatch: float | None) -> None:
        for name, norm in (("sample", per_sample), ("minibatch", per_minibatch)):
            if norm is not None and not 0 < norm < math.inf:
                raise ValueError(f"clip_norm_per_{name} must be positive, got {norm!r}")
        if per_sample is not None and per_minibatch is not None:
            raise ValueError("give clip_norm_per_sample or clip_norm_per_minibatch, not both")
        self._per_sample = per_sample
        self._per_minibatch = per_minibatch

    def limit_of_sum(self, num_samples: int) -> float | None:
        """Return the largest norm of the sum of that many gradients, if it is limited."""
        if self._per_sample is not None:
            return self._per_sample * num_samples
        return self._per_minibatch
