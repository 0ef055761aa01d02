"""Everything a training run needs to resume from one moment, held in main memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sweephand.errors import StateError
from sweephand.run.strict_json import to_json
from sweephand.train.checkpoint.checkpoint import STATE, Checkpoint, Contents
from sweephand.train.checkpoint.checkpoint_file import SavedFile, Sink
from sweephand.train.checkpoint.read_state import reading
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
