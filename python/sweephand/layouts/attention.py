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
        Cost of every item of carried streams, in samples of a short sequence:
        ``{"patches": 3.5}``. The method `cost`, which takes lengths alone, does not include it.
    per_item : sequence of (str, float)
        The same, in the stored form.

    Raises
    ------
    ValueError
        If `equal_at` is out of range, or an item costs less than 0 or above 2^20.

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

    @property
    def items_in_integers(self) -> Mapping[str, int]:
        """Cost of items of carried streams times `equal_at`, rounded."""
        return {name: round(one * self.equal_at) for name, one in self.per_item}

    @property
    def in_integers(self) -> _core.compose.Cost:
        """The same times `equal_at`: in integers all workers agree."""
        return _core.compose.Cost(self.equal_at, is_quadratic=True)


Balance = Literal["samples", "attention"] | Attention | None


def costs_of_items(balance: Balance) -> Mapping[str, int]:
    """Return the carried streams that cost something, in integers as `cost_of` has them."""
    return balance.items_in_integers if isinstance(balance, Attention) else {}


def cost_of(
    balance: Balance, sizes: Mapping[str, _core.index.Sizes] = MappingProxyType({})
) -> _core.compose.Cost | None:
    """Return the cost that evens shares, or None; ValueError for an unknown balance."""
    if balance is None:
        return None
    if balance == "samples":
        return _core.compose.Cost(1, is_quadratic=False)
    if balance == "attention":
        balance = Attention()
    if isinstance(balance, Attention):
        cost = balance.in_integers
        for name, own in sizes.items():
            cost = cost.with_items(own, balance.items_in_integers[name])
        return cost
    raise ValueError(
        "balance must be None, 'samples', 'attention' or an sh.Attention(equal_at=...), "
        f"got {shown(balance)}"
    )
