"""Loss-scale states that other libraries have written."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sweephand.train.checkpoint.read_state import reading

Reader: TypeAlias = Callable[[Mapping[str, Any]], tuple[Any, Any]]


def _apex(state: Mapping[str, Any]) -> tuple[Any, Any]:
    scaler = state["loss_scaler0"]
    return scaler["loss_scale"], scaler["unskipped"]


def _deepspeed(state: Mapping[str, Any]) -> tuple[Any, Any]:
    clean = state["cur_iter"] - state["last_overflow_iter"] - 1
    return state["cur_scale"], clean % state["scale_window"]


# By the keys that identify a library's state: how scale and counter are read from it.
READERS: dict[tuple[str, ...], Reader] = {
    ("scale", "_growth_tracker"): lambda s: (s["scale"], s["_growth_tracker"]),  # torch
    ("dynamic_scale", "step_counter"): lambda s: (
        s["dynamic_scale"],
        s["step_counter"],
    ),  # Keras 3
    ("current_loss_scale", "good_steps"): lambda s: (s["current_loss_scale"], s["good_steps"]),
    ("loss_scaler0",): _apex,
    ("cur_scale", "cur_iter", "last_overflow_iter", "scale_window"): _deepspeed,
}


def read_foreign(state: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return scale and counter of a state of torch, tf.keras, Keras 3, Apex or DeepSpeed.

    Return None if it is a state of none of them, and raise StateError if it cannot be read.

    Examples
    --------
    >>> read_foreign({"scale": 1024.0, "growth_interval": 2000, "_growth_tracker": 7})
    {'scale': 1024.0, 'counter': 7}
    """
    for keys, reader in READERS.items():
        if not all(key in state for key in keys):
            continue
        with reading(f"a loss scale with {', '.join(keys)}"):
            scale, counter = reader(state)
            return {"scale": float(scale), "counter": int(counter)}
    return None
