"""The states of random number generators, as JSON can hold them."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweephand.train.checkpoint.read_state import reading


def capture_random_state() -> dict[str, Any]:
    """Return the states of Python's and NumPy's global generators."""
    python_version, words, gauss = random.getstate()
    return {
        "python": [python_version, list(words), gauss],
        "numpy": plain(np.random.get_state(legacy=False)),  # noqa: NPY002
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Set Python's and NumPy's global generators, or raise StateError."""
    with reading("random generators"):
        python_version, words, gauss = state["python"]
        random.setstate((python_version, tuple(words), gauss))
        np.random.set_state(state["numpy"])  # noqa: NPY002


def plain(state: Any) -> Any:
    """Return a state with lists in place of arrays."""
    if isinstance(state, Mapping):
        return {name: plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state
