"""Cost of a sequence from its length alone, by which the shares of workers are evened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.errors import shown

Length = TypeVar("Length", float, NDArray[np.float64])


@dataclass(frozen=True, init=False)
class Attention:
    """A cost per sequence of n samples: n + n² / equal_at, for ``balance=``.

    Parameters
    ----------
    equal_at : int
        Length of a sequence whose attention costs as much as the rest of the model; in
        [1, 2^31]. For a plain transformer that is 6 times its width: 24,576 fits 7 B
        parameters. Twice that for a causal kernel that skips half of the products.
    cost : dict of float, optional
        Cost of every item of carried streams, in samples of a short sequence, up to 2^20:
        ``{"patches": 3.5}``. The method `cost`, which takes lengths alone, does not include it.
    per_item : sequence of (str, float)
        The same, in the stored form.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.Attention().cost(24_576), sh.Attention(equal_at=1000).cost(500)
    (49152.0, 750.0)
    """

    equal_at: int = 24_576
    per_item: tuple[tuple[str, float], ...] = ()

    def __init__(
        self,
        equal_at: int = 24_576,
        cost: Mapping[str, float] | None = None,
        per_item: Iterable[tuple[str, float]] = (),
    ) -> None:
        check_int("equal_at", equal_at, 1, 2**31 + 1)
        given = {**dict(per_item), **(cost or {})}
        for name, one in given.items():
            if not 0 <= one <= 2**20:
                raise ValueError(f"an item of {name!r} costs from 0 to 2^20 samples, got {one}")
        object.__setattr__(self, "equal_at", equal_at)
        object.__setattr__(self, "per_item", tuple(sorted(given.items())))

    def __repr__(self) -> str:
        cost = f", cost={dict(self.per_item)}" if self.per_item else ""
        return f"Attention(equal_at={self.equal_at}{cost})"

    def cost(self, num_samples: Length) -> Length:
        """Return the cost of each sequence, in samples of a short sequence."""
        return num_samples * (1 + num_samples / self.equal_at)


Balance = Literal["samples", "attention"] | Attention | None


def costs_of_items(balance: Balance) -> Mapping[str, int]:
    """Return the cost of an item of carried streams, in integers as `cost_of` has them."""
    if not isinstance(balance, Attention):
        return {}
    return {name: round(one * balance.equal_at) for name, one in balance.per_item}


def cost_of(
    balance: Balance, sizes: Mapping[str, _core.index.Sizes] = MappingProxyType({})
) -> _core.compose.Cost | None:
    """Return the cost that evens shares, or None; ValueError for an unknown balance.

    It is in integers, of which all workers agree.
    """
    if balance is None:
        return None
    if balance == "samples":
        return _core.compose.Cost(1, is_quadratic=False)
    if balance == "attention":
        balance = Attention()
    if isinstance(balance, Attention):
        cost = _core.compose.Cost(balance.equal_at, is_quadratic=True)
        for name, own in sizes.items():
            cost = cost.with_items(own, costs_of_items(balance)[name])
        return cost
    raise ValueError(
        "balance must be None, 'samples', 'attention' or an sh.Attention(equal_at=...), "
        f"got {shown(balance)}"
    )
