"""Checks of what callers pass."""

import numpy as np


def check_int(name: str, value: object, least: int, bound: int) -> None:
    """Refuse what is no int in ``[least, bound)``; booleans and floats are none.

    Raises
    ------
    ValueError
        Naming the argument, what is wanted and what was found.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an int, got {value!r}")
    if not least <= value < bound:
        raise ValueError(f"{name} must be in [{least}, {bound}), got {value}")
