"""The state of a trainer: all that its checkpoints hold."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sweephand.run.strict_json import of_json, to_json
from sweephand.train.checkpoint.read_state import check_keys, reading
from sweephand.train.checkpoint.snapshot import (
    Snapshot,
    Stateful,
    capture_states,
    check_stateful,
    restore_states,
)
from sweephand.train.learners.learner import Clocks
from sweephand.train.trainer.step_reporter import StepReporter
from sweephand.train.trainer.trained_model import TrainedModel

logger = logging.getLogger("sweephand")


class TrainerState:
    """Clocks, and the state that a trainer saves with them: that of observers, too."""

    def __init__(
        self,
        model: TrainedModel,
        reporter: StepReporter,
        stateful: Mapping[str, Stateful],
    ) -> None:
        check_stateful(stateful)
        self.clocks = Clocks()
        self._model = model
        self._reporter = reporter
        self._stateful = dict(stateful)

    def capture(self) -> Snapshot:
        """Return a snapshot of this moment, with the states of observers."""
        files, state = self._model.capture()
        return Snapshot(files, self._described(state))

    def state_dict(self) -> dict[str, Any]:
        """Return the same with tensors as they are, sharded or not, and all else as JSON."""
        state = self._described(self._model.describe())
        return {**self._model.tensors(), "state": to_json(state)}

    def _described(self, model: dict[str, Any]) -> dict[str, Any]:
        mine = self._model.capture_random_state(), self._reporter.state()
        gathered = self._model.workers.gather(mine)
        return {
            "trainer": self.clocks.state_dict(),
            "model": model,
            "stateful": capture_states(self._stateful),
            "random": [random for random, _ in gathered],
            "writers": gathered[0][1],
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to the moment of a snapshot, or raise StateError."""

        def restore_model(model: Mapping[str, Any]) -> None:
            self._model.restore(snapshot.files, model)

        with reading("a trainer"):
            self._model.check(snapshot.files, snapshot.state["model"])
            self._restore(snapshot.state, restore_model)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to the moment of a state, or raise StateError."""
        check_keys("a trainer", state, ["state"])
        with reading("a trainer"):
            described = of_json(json.loads(state["state"]))
            self._restore(described, partial(self._model.load, state))

    def _restore(
        self,
        state: Mapping[str, Any],
        restore_model: Callable[[Mapping[str, Any]], None],
    ) -> None:
        clocks = Clocks()
        clocks.load_state_dict(state["trainer"])
        restore_states(self._stateful, state["stateful"])
        restore_model(state["model"])
        self._restore_random_state(state["random"])
        self._reporter.restore(state.get("writers", []))
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
