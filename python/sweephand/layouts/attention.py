"""Cost of a sequence for a model whose samples attend to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.checks import check_int

Length = TypeVar("Length", float, NDArray[np.float64])


@dataclass(frozen=True)
class Attention:
    """A cost per sequence of n samples: n + n² / equal_at, for ``balance=``.

    Parameters
    ----------
    equal_at : int
        Length of a sequence whose attention costs as much as the rest of the model; in
        [1, 2^31]. For a plain transformer that is 6 times its width: 24,576 fits 7 B
        parameters. Twice that for a causal kernel that skips half of the products.

    Raises
    ------
    ValueError
        If `equal_at` is out of range.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.Attention().cost(24_576), sh.Attention(equal_at=1000).cost(500)
    (49152.0, 750.0)
    """

    equal_at: int = 24_576

    def __post_init__(self) -> None:
        check_int("equal_at", self.equal_at, 1, 2**31 + 1)

    def cost(self, num_samples: Length) -> Length:
        """Return the cost of a sequence, or of each in an array, in samples of a short one."""
        return num_samples * (1 + num_samples / self.equal_at)

    @property
    def in_integers(self) -> _core.compose.Cost:
        """The same times `equal_at`: in integers all workers agree."""
        return _core.compose.Cost(self.equal_at, is_quadratic=True)
