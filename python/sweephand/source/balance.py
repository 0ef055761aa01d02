"""Cost of a sequence, from its length alone, by which the shares of workers are evened."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from sweephand import _core
from sweephand.errors import shown
from sweephand.layouts.attention import Attention

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
