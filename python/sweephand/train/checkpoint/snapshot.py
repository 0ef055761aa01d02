"""Everything a training run needs to resume from one moment, held in main memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from sweephand.errors import ArgumentTypeError, StateError
from sweephand.run.strict_json import to_json
from sweephand.train.checkpoint.checkpoint_store import STATE, Checkpoint, Contents
from sweephand.train.checkpoint.read_state import plain, reading
from sweephand.train.checkpoint.safetensors_file import SavedFile, Sink
from sweephand.train.learners.hyperparameters import Restored
from sweephand.train.trainer.trained_model import TrainedModel


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

    @classmethod
    def read(
        cls,
        checkpoint: Checkpoint,
        model: TrainedModel,
        hyperparameters: Restored = "checkpoint",
    ) -> Self:
        """Read a checkpoint, or raise StateError if it was not made of such a model.

        Its hyperparameters, or those that the learners were given, are in the snapshot.
        """
        state = checkpoint.state()
        try:
            files = model.read(checkpoint.folder)
        except FileNotFoundError as error:
            raise StateError(
                f"{checkpoint.folder} is of another kind of model or other learners: it has no "
                f"{error.filename}"
            ) from error
        if hyperparameters == "given":
            with reading("a trainer"):
                model.check(files, state["model"])
                model.keep_hyperparameters(files, state["model"])
        return cls(files, state)

    def contents(self) -> Contents:
        """Return the writer of each file of a checkpoint."""
        return {name: file.write for name, file in self.files.items()} | {STATE: self._write}

    def _write(self, sink: Sink) -> None:
        sink.write(to_json(self.state).encode())


def check_json(what: str, value: object) -> None:
    """Raise TypeError unless a value survives being written to JSON and read back."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the keys of {what} must be str, got {key!r}")
            check_json(f"{what}[{key!r}]", item)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            check_json(f"{what}[{i}]", item)
    elif value is not None and type(value) not in (str, int, float, bool):
        raise TypeError(
            f"{what} must be what JSON can hold (dict, list, str, int, float, bool or None), "
            f"got {type(value).__name__}"
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
