"""The checkpoints of a trainer: folders of its own, and states for those of torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sweephand.train.arguments import check_path
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore, find
from sweephand.train.checkpoint.folder_lock import FolderLock
from sweephand.train.checkpoint.snapshot import Snapshot, check_json
from sweephand.train.learners.hyperparameters import Restored, check_restored
from sweephand.train.progress.record import Step
from sweephand.train.trainer.step_reporter import StepReporter
from sweephand.train.trainer.stopwatch import Stopwatch
from sweephand.train.trainer.trained_model import TrainedModel
from sweephand.train.trainer.trainer_state import TrainerState
from sweephand.train.trainer.workers import on_first


class Checkpoints:
    """Saves a trainer, and restores it."""

    _model: TrainedModel
    _reporter: StepReporter
    _run_id: str
    _state: TrainerState
    _stopwatch: Stopwatch

    @property
    def writers(self) -> list[Any]:
        """The progress writers, ledgers and receipts that this worker reports to."""
        return [observer.writer for observer in self._reporter.observers]

    def reporting_also_to(
        self, *calls: Callable[[Step], object]
    ) -> AbstractContextManager[None]:
        """Call these with each step inside, beside the progress writers."""
        return self._reporter.reporting_also_to(calls)

    def reporting_only_to(
        self, *calls: Callable[[Step], object]
    ) -> AbstractContextManager[None]:
        """Call only these with each step inside; afterwards as if nothing had been reported."""
        return self._reporter.reporting_only_to(calls)

    def await_step(self) -> None:
        """Wait for the results of the last step, and report them to the writers."""
        self._reporter.await_step()

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
        if checkpoint.run is not None and checkpoint.folder != Path(path).expanduser():
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
        self._reporter.settle()
        return self._state.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore such a state, saved by any number of ranks.

        Raises
        ------
        StateError
            If it is no state of a trainer, or of another model or other learners.
        """
        self._reporter.drop_pending()
        self._state.load_state_dict(state)
        self._reporter.rewind(self._state.clocks.consumed.steps)
        self._stopwatch.forget()

    def capture(self) -> Snapshot:
        """Return all that is needed to go on from here but the source's position."""
        self._reporter.settle()
        return self._state.capture()

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, or raise StateError if it is of another model or learners."""
        self._reporter.drop_pending()
        self._state.restore(snapshot)
        self._reporter.rewind(self._state.clocks.consumed.steps)
        self._stopwatch.forget()
