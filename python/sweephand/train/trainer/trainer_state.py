"""The state of a trainer: all that its checkpoints hold, and the digest of its parameters."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from sweephand.errors import shown
from sweephand.run.strict_json import of_json, to_json
from sweephand.train.arguments import check_path
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore, FolderLock, find
from sweephand.train.checkpoint.read_state import check_keys, reading
from sweephand.train.checkpoint.safetensors_file import HashingSink, SavedFile, SavedTensors
from sweephand.train.checkpoint.snapshot import (
    Snapshot,
    Stateful,
    capture_states,
    check_json,
    check_stateful,
    restore_states,
)
from sweephand.train.learners.hyperparameters import Restored, check_restored
from sweephand.train.learners.learner import Clocks
from sweephand.train.trainer.numpy_model import WEIGHTS
from sweephand.train.trainer.step_reporter import StepReporter
from sweephand.train.trainer.trained_model import TrainedModel
from sweephand.train.trainer.workers import on_first

logger = logging.getLogger("sweephand")


class ResumableTrainer:
    """The part of a trainer that is saved and restored: model, clocks, observers, and more."""

    def __init__(
        self,
        model: TrainedModel,
        reporter: StepReporter,
        stateful: Mapping[str, Stateful],
    ) -> None:
        check_stateful(stateful)
        self._model = model
        self.reporter = reporter
        self._stateful = dict(stateful)
        self._clocks = Clocks()
        self._stopwatch = Stopwatch()
        self._run_id = uuid4().hex  # of which its checkpoints are

    @property
    def model(self) -> TrainedModel:
        """The model with its learners, as a session works with it."""
        return self._model

    @property
    def writers(self) -> list[Any]:
        """The progress writers, ledgers and receipts that this worker reports to."""
        return [observer.writer for observer in self.reporter.observers]

    def await_step(self) -> None:
        """Wait for the results of the last step, and report them to the writers."""
        self.reporter.await_step()

    def save_checkpoint(
        self, path: str | Path, external_state: dict[str, Any] | None = None
    ) -> None:
        """Save everything but the source's position, and return when it is durable.

        Parameters
        ----------
        path : path
            The folder that checkpoints are kept in, whatever its name: ``"m.ckpt"`` is one too.
            When the new one has been read back, older ones are removed that this trainer saved,
            or the run whose newest one it has restored.
        external_state : dict, optional
            Any value that JSON can hold; `restore_from_checkpoint` returns it.

        Raises
        ------
        OSError
            If it cannot be written, or another run is saving there; older ones stay.
        TypeError
            If JSON cannot hold a state.
        """
        check_path("path", path)
        check_json("external_state", external_state)
        snapshot = self.capture()
        snapshot.state["external"] = external_state
        store = CheckpointStore(Path(path).expanduser(), run=self._run_id)

        def write() -> None:
            with FolderLock(store.folder):
                store.write(store.next_number(), snapshot.contents())

        on_first(self._model.workers, write)

    def restore_from_checkpoint(
        self, path: str | Path, *, hyperparameters: Restored = "checkpoint"
    ) -> Any:
        """Continue from a checkpoint, and return its external state.

        Parameters
        ----------
        path : path
            A folder of checkpoints, of which the newest is taken, or one checkpoint.
        hyperparameters : {"checkpoint", "given"}
            Which hold from here on, as for `CheckpointConfig`.

        Raises
        ------
        FileNotFoundError
            If there is none.
        StateError
            If all are damaged, or it is of another model or other learners.
        """
        check_path("path", path)
        check_restored(hyperparameters)
        checkpoint = find(Path(path).expanduser())
        if checkpoint is None:
            raise FileNotFoundError(f"there is no checkpoint in {path}")
        snapshot = Snapshot.read(checkpoint, self._model, hyperparameters)
        self.restore(snapshot)
        if checkpoint.folder != Path(path).expanduser():
            self._run_id = checkpoint.run  # which goes on
        return snapshot.state.get("external")

    def state_dict(self) -> dict[str, Any]:
        """Return all but the source's position for ``torch.distributed.checkpoint``.

        Returns
        -------
        dict
            Tensors are those of the model and its optimizers, not copies, so that each rank
            saves its shards; with NumPy learners arrays. The rest is a text of JSON, the same
            on all ranks.
        """
        self.reporter.settle()
        state = self._described(self._model.describe())
        return {**self._model.tensors(), "state": to_json(state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore such a state, saved by any number of ranks.

        Raises
        ------
        StateError
            If it is no state of a trainer, or of another model or other learners.
        """
        check_keys("a trainer", state, ["state"])
        with reading("a trainer"):
            described = of_json(json.loads(state["state"]))
            self._restore(described, partial(self._model.load, state))

    def capture(self) -> Snapshot:
        """Return all that is needed to go on from here but the source's position."""
        self.reporter.settle()
        files, state = self._model.capture()
        return Snapshot(files, self._described(state))

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, or raise StateError if it is of another model or learners."""
        with reading("a trainer"):
            self._model.check(snapshot.files, snapshot.state["model"])
            self._restore(snapshot.state, partial(self._model.restore, snapshot.files))

    def _described(self, model: dict[str, Any]) -> dict[str, Any]:
        mine = self._model.capture_random_state(), self.reporter.state()
        gathered = self._model.workers.gather(mine)
        return {
            "trainer": self._clocks.state_dict(),
            "model": model,
            "stateful": capture_states(self._stateful),
            "random": [random for random, _ in gathered],
            "writers": gathered[0][1],
        }

    def _restore(
        self,
        state: Mapping[str, Any],
        restore_model: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.reporter.drop_pending()
        clocks = Clocks()
        clocks.load_state_dict(state["trainer"])
        restore_states(self._stateful, state["stateful"])
        restore_model(state["model"])
        self._restore_random_state(state["random"])
        self.reporter.restore(state.get("writers", []))
        self._clocks = clocks
        self.reporter.rewind(clocks.consumed.steps)
        self._stopwatch.forget()

    @contextmanager
    def drawing_again(self, error: type[Exception]) -> Iterator[None]:
        """Restore random generators and stateful objects if an error of a kind occurs."""
        stateful = capture_states(self._stateful)
        random = self._model.capture_random_state()
        try:
            yield
        except error:
            restore_states(self._stateful, stateful)
            self._model.restore_random_state(random)
            raise

    def _restore_random_state(self, states: Sequence[Mapping[str, Any]]) -> None:
        index = self._model.workers.rank
        if index < len(states):
            self._model.restore_random_state(states[index])
        else:
            logger.warning(
                "the checkpoint was saved by %d workers: the random generators of worker %d go "
                "on from where they are",
                len(states),
                index,
            )


class Stopwatch:
    """Measures the time inside and outside of the trainer."""

    def __init__(self) -> None:
        self._left: float | None = None  # when the trainer was last left
        self._entered = 0.0

    def enter(self) -> None:
        """Note that the trainer is entered."""
        self._entered = time.perf_counter()

    def leave(self) -> tuple[float, float]:
        """Return the seconds since it was last left, and those before it was entered."""
        now = time.perf_counter()
        left = self._entered if self._left is None else self._left
        self._left = now
        return now - left, self._entered - left

    def forget(self) -> None:
        """Discard the time since the trainer was left: it was spent on something else."""
        self._left = None


def parameter_digest(model: ResumableTrainer | Mapping[str, Any] | str | PathLike[str]) -> str:
    """Return the SHA-256 of the parameters of a model, as a checkpoint holds them.

    It is that of the bytes of ``model.safetensors``, so that ``sha256sum`` gives the same of a
    checkpoint. Names, dtypes, shapes and all bits count; steps, learners and generators do not.
    For sharded models all processes must call it.

    Parameters
    ----------
    model : Trainer, mapping or path
        A trainer; arrays of NumPy or tensors of torch by name, such as ``module.state_dict()``;
        a checkpoint, or a folder of checkpoints, of which the newest is taken.

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint.
    StateError
        If it is damaged, or has no such file.
    TypeError
        If it is anything else.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> one, other = np.zeros(2, np.float32), np.array([0.0, -0.0], np.float32)
    >>> sh.train.parameter_digest({"w": one}) == sh.train.parameter_digest({"w": other})
    False
    """
    if isinstance(model, str | PathLike):
        checkpoint = find(Path(model).expanduser())
        if checkpoint is None:
            raise FileNotFoundError(f"there is no checkpoint in {model}")
        return checkpoint.sha256(WEIGHTS)
    file: SavedFile
    if isinstance(model, Mapping):
        file = file_of_tensors(model)
    elif isinstance(model, ResumableTrainer):
        model.await_step()
        file = model.model.parameters()
    else:
        raise TypeError(
            "parameter_digest takes a trainer, arrays or tensors by name, or the path of a "
            f"checkpoint, got {shown(model)}"
        )
    digest = hashlib.sha256()
    file.write(HashingSink(digest))
    return digest.hexdigest()


def file_of_tensors(parameters: Mapping[str, Any]) -> SavedTensors:
    """Return arrays, or tensors of torch, as ``model.safetensors`` holds them."""
    if any(hasattr(one, "detach") for one in parameters.values()):
        from sweephand.torch.train.saved_state import save_tensors

        return save_tensors(parameters)
    return SavedTensors.of_arrays(
        {name: np.asarray(array) for name, array in parameters.items()}
    )
