"""The states of torch's random number generators, as JSON can hold them."""

from collections.abc import Mapping
from typing import Any

import torch

from sweephand.errors import StateError
from sweephand.train.states import capture_random_state as capture_other_state
from sweephand.train.states import restore_random_state as restore_other_state


def capture_random_state() -> dict[str, Any]:
    """Return the states of Python's, NumPy's and torch's global generators."""
    devices = []
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        devices = torch.cuda.get_rng_state_all()
    return capture_other_state() | {
        "torch": to_text(torch.get_rng_state()),
        "cuda": [to_text(state) for state in devices],
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Set the global generators, but for those of devices that do not exist here.

    StateError is raised if it is no such state.
    """
    restore_other_state(state)
    try:
        torch.set_rng_state(from_text(state["torch"]))
        if state["cuda"] and torch.cuda.is_available():
            states = [from_text(text) for text in state["cuda"]]
            torch.cuda.set_rng_state_all(states[: torch.cuda.device_count()])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StateError(f"this is no state of torch's generators: {error!r}") from error


def to_text(state: torch.Tensor) -> str:
    """Return the bytes of a state as hexadecimal digits."""
    return state.numpy().tobytes().hex()


def from_text(text: str) -> torch.Tensor:
    """Return a state of hexadecimal digits."""
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
