"""The detection of a criterion that returns the mean of the loss instead of its sum."""

import math


class MeanDetector:
    """Detects from the losses of minibatches of different sizes that they are means.

    The logarithm of a sum changes by as much as that of the number of samples, that of a mean
    does not change with it. So the slope of the one by the other is estimated over all pairs of
    successive minibatches, in which slow changes of the loss itself hardly show.
    """

    _WANTED_PAIRS = 16  # with unequal numbers of samples
    _LIMIT = 0.5  # between the slope 0 of a mean and 1 of a sum
    _ERRORS = 4  # standard errors by which the slope must be below the limit

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._pairs = 0
        self._xx = self._xy = self._yy = 0.0

    def is_mean(self, loss: float, num_samples: int) -> bool:
        """Add a minibatch, and return True once losses are surely means."""
        if not 0 < loss < math.inf:
            self._before = None
            return False
        now = math.log(num_samples), math.log(loss)
        before, self._before = self._before, now
        if before is None or before[0] == now[0]:
            return False
        x, y = now[0] - before[0], now[1] - before[1]
        self._pairs += 1
        self._xx += x * x
        self._xy += x * y
        self._yy += y * y
        if self._pairs < self._WANTED_PAIRS:
            return False
        slope = self._xy / self._xx
        left = max(self._yy - slope * self._xy, 0.0)
        error = math.sqrt(left / (self._pairs - 1) / self._xx)
        return slope + self._ERRORS * error < self._LIMIT
