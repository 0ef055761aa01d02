"""Everything a training run needs to resume from one moment, held in main memory."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from sweephand.errors import ArgumentTypeError, StateError
from sweephand.run.strict_json import of_json, to_json
from sweephand.train.checkpoint.checkpoint_store import STATE, Checkpoint
from sweephand.train.checkpoint.read_state import plain
from sweephand.train.checkpoint.saved_arrays import Sink
from sweephand.train.trainer.trained_model import TrainedModel


class SavedFile(Protocol):
    """The content of one file of a checkpoint, held in main memory."""

    def write(self, sink: Sink, /) -> None:
        """Write it."""


@dataclass(frozen=True)
class Snapshot:
    """The state of training at one moment, which later steps do not change.

    Attributes
    ----------
    files : mapping from name to content
        Parameters, and what else is large.
    state : dict
        All the rest, as JSON can hold it.
    """

    files: Mapping[str, SavedFile]
    state: dict[str, Any]

    def contents(self) -> dict[str, Callable[[Sink], object]]:
        """Return the writer of each file of a checkpoint."""
        return {
            **{name: file.write for name, file in self.files.items()},
            STATE: lambda sink: sink.write(to_json(self.state).encode()),
        }


def read_snapshot(checkpoint: Checkpoint, model: TrainedModel) -> Snapshot:
    """Read a checkpoint, or raise StateError if it was not made of such a model."""
    try:
        return Snapshot(model.read(checkpoint.folder), checkpoint.state())
    except FileNotFoundError as error:
        raise StateError(
            f"{checkpoint.folder} is of another kind of model or other learners: it has no "
            f"{error.filename}"
        ) from error


def check_json(what: str, value: object) -> None:
    """Raise TypeError unless a value survives being written to JSON and read back."""
    try:
        is_same = repr(of_json(json.loads(to_json(value)))) == repr(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must be what JSON can hold: {error}") from error
    if not is_same:
        raise TypeError(
            f"{what} must be what JSON can hold (dict by str, list, str, int, float, bool or "
            f"None), got {value!r:.100}"
        )


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
