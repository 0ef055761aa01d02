"""Objects of the user that are saved and restored with the model."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from sweephand.errors import ArgumentTypeError, StateError
from sweephand.train.checkpoint.random_state import plain
from sweephand.train.checkpoint.snapshot import check_json


@runtime_checkable
class HasState(Protocol):
    """An object with a state that JSON can hold."""

    def state_dict(self) -> Any:
        """Return the state."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Continue from a state."""


@runtime_checkable
class TorchGenerator(Protocol):
    """The interface of a torch.Generator."""

    def get_state(self) -> Any:
        """Return the state."""

    def set_state(self, state: Any, /) -> Any:
        """Continue from a state."""


Stateful: TypeAlias = HasState | np.random.Generator | TorchGenerator


def check_stateful(objects: Mapping[str, Stateful]) -> None:
    """Raise `ArgumentTypeError` for an object without a state."""
    for name, one in objects.items():
        if not isinstance(one, np.random.Generator | HasState | TorchGenerator):
            raise ArgumentTypeError(
                f"stateful[{name!r}] must be a generator of random numbers or have state_dict "
                f"and load_state_dict, got {type(one).__name__}"
            )


def capture_states(objects: Mapping[str, Stateful]) -> dict[str, Any]:
    """Return the state of each object, or raise TypeError if JSON cannot hold it."""
    states = {name: _state(one) for name, one in objects.items()}
    check_json("the state of stateful", states)
    return states


def restore_states(objects: Mapping[str, Stateful], states: Mapping[str, Any]) -> None:
    """Restore each object from its state, or raise StateError if other objects were saved."""
    if objects.keys() != states.keys():
        raise StateError(
            f"the checkpoint has the stateful objects {sorted(states)}, here are "
            f"{sorted(objects)}"
        )
    for name, one in objects.items():
        if isinstance(one, np.random.Generator):
            one.bit_generator.state = states[name]
        elif isinstance(one, HasState):
            one.load_state_dict(states[name])
        else:
            from sweephand.torch.train.random_state import from_text

            one.set_state(from_text(states[name]))


def _state(one: Stateful) -> Any:
    if isinstance(one, np.random.Generator):
        return plain(one.bit_generator.state)
    if isinstance(one, HasState):
        return one.state_dict()
    from sweephand.torch.train.random_state import to_text

    return to_text(one.get_state())
