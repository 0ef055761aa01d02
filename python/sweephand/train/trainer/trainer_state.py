"""The state of a trainer: all that its checkpoints hold."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sweephand.train.checkpoint.read_state import reading
from sweephand.train.checkpoint.snapshot import Snapshot
from sweephand.train.checkpoint.stateful import (
    Stateful,
    capture_states,
    check_stateful,
    restore_states,
)
from sweephand.train.learners.clock import Clocks
from sweephand.train.progress.periodic_writer import capture_averages, restore_averages
from sweephand.train.progress.record import ProgressWriter
from sweephand.train.trainer.trained_model import TrainedModel

logger = logging.getLogger("sweephand")


class TrainerState:
    """Clocks, and what a trainer saves with them.

    Parameters
    ----------
    model : TrainedModel
    stateful : mapping from name to object
        What the user wants to be saved as well.
    """

    def __init__(self, model: TrainedModel, stateful: Mapping[str, Stateful]) -> None:
        check_stateful(stateful)
        self.clocks = Clocks()
        self._model = model
        self._stateful = dict(stateful)

    def capture(self, writers: Sequence[ProgressWriter]) -> Snapshot:
        """Return a snapshot of this moment, with the averages of progress writers."""
        files, state = self._model.capture()
        return Snapshot(
            files,
            {
                "trainer": self.clocks.state_dict(),
                "model": state,
                "stateful": capture_states(self._stateful),
                "random": self._model.workers.gather(self._model.capture_random_state()),
                "writers": capture_averages(writers),
            },
        )

    def restore(self, snapshot: Snapshot, writers: Sequence[ProgressWriter]) -> None:
        """Go back to the moment of a snapshot, or raise StateError."""
        state = snapshot.state
        with reading("a trainer"):
            clocks = Clocks()
            clocks.load_state_dict(state["trainer"])
            self._model.check(snapshot.files, state["model"])
            restore_states(self._stateful, state["stateful"])
            self._model.restore(snapshot.files, state["model"])
            self._restore_random_state(state["random"])
            if self._model.workers.index == 0:  # the others' were not saved
                restore_averages(writers, state.get("writers", []))
        self.clocks = clocks

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
        index = self._model.workers.index
        if index < len(states):
            self._model.restore_random_state(states[index])
        else:
            logger.warning(
                "the checkpoint was saved by %d workers: the random generators of worker %d go "
                "on from where they are",
                len(states),
                index,
            )
