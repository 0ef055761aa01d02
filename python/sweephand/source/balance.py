"""Cost of a sequence, from its length alone, by which the shares of workers are evened."""

from __future__ import annotations

from typing import Literal

from sweephand import _core
from sweephand.errors import shown
from sweephand.layouts.attention import Attention

Balance = Literal["samples", "attention"] | Attention | None


def cost_of(balance: Balance) -> _core.compose.Cost | None:
    """Return the cost that evens shares, or None; ValueError for an unknown balance."""
    if balance is None:
        return None
    if balance == "samples":
        return _core.compose.Cost(1, is_quadratic=False)
    if balance == "attention":
        balance = Attention()
    if isinstance(balance, Attention):
        return balance.in_integers
    raise ValueError(
        "balance must be None, 'samples', 'attention' or an sh.Attention(equal_at=...), "
        f"got {shown(balance)}"
    )
