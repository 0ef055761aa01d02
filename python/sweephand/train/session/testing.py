"""The test at the end of a session."""

from collections.abc import Mapping
from typing import Any

from sweephand.checks import check_flag
from sweephand.train.session.activity import Activity
from sweephand.train.session.evaluation import evaluate
from sweephand.train.session.evaluation_configs import TestConfig
from sweephand.train.session.training_run import TrainingRun


class FinalTest(Activity):
    """Test the model at the end, unless it was tested since the last step."""

    def __init__(self, run: TrainingRun, config: TestConfig | None) -> None:
        super().__init__(run.count)
        self._run = run
        self._config = config

    def is_due_at_end(self) -> bool:
        """Return True if there is a model that was not tested yet."""
        is_tested = self._run.is_tested or not self._run.count("minibatch")
        return self._config is not None and not is_tested

    def act(self) -> None:
        """Test the model."""
        assert self._config is not None
        source, size = self._config.minibatch_source, self._config.minibatch_size
        result = evaluate(self._run.feed, self._run.trainer, source, size, None)
        self._run.is_tested = True
        self._run.trainer.report("test", result.figures())

    def session_state(self) -> dict[str, Any]:
        """Return True if the model was tested."""
        return {"is_tested": self._run.is_tested}

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._run.is_tested = check_flag("is_tested", state["is_tested"])
