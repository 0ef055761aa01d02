"""A trainer calls its observers in the order in which a run goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.train.small import Heard, line_trainer, source_of_lengths

import sweephand as sh
from sweephand import extend
from sweephand.train.records import Observer, TakenStep


class Diary(Observer):
    """Writes down each call with its step."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def begin(self, step: int) -> None:
        self.calls.append(("begin", step))

    def stepped(self, taken: TakenStep) -> None:
        self.calls.append(("stepped", taken.step))
        self.values = dict(taken.values)

    def update(self, step: sh.train.Step) -> None:
        self.calls.append(("measured", step.step))

    def rewind(self, step: int) -> None:
        self.calls.append(("rewind", step))

    def flush(self, *, to_disk: bool = False) -> None:
        self.calls.append(("flush", int(to_disk)))

    def state_dict(self) -> dict[str, Any]:
        return {"calls": len(self.calls)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.calls.append(("restore", state.get("calls", -1)))


def test_an_observer_follows_steps_saves_and_restores(tmp_path: Any) -> None:
    diary = Diary()
    trainer = line_trainer([diary], 0.1)
    source = source_of_lengths([1, 2, 3])
    trainer.train_minibatch(source.next_minibatch(3))
    trainer.save_checkpoint(tmp_path / "saved")
    trainer.train_minibatch(source.next_minibatch(3))
    trainer.restore_from_checkpoint(tmp_path / "saved")
    first, second = [("begin", 0), ("stepped", 1), ("measured", 1)], [("begin", 1)]
    assert diary.calls == [
        *first,
        ("flush", 1),
        *second,
        ("stepped", 2),
        ("measured", 2),
        ("restore", 4),
        ("rewind", 1),
    ]
    assert diary.values["applied"] is True
    assert diary.values["learning_rate"] == 0.1


def test_an_observer_that_shows_nothing_leaves_messages_to_the_log() -> None:
    silent, writer = Diary(), sh.ProgressPrinter()
    assert not line_trainer([silent], 0.1).report("event", {"message": "m"})
    assert line_trainer([silent, writer], 0.1).report("event", {"message": "m"})


class Halves(Observer):
    """Wants the norms of the gradients of halves in every second step."""

    part_norms_every = 2

    def figures(
        self, step: sh.train.Step, norms: extend.PartNorms | None
    ) -> Mapping[str, float]:
        return {"halves": 0.0 if norms is None else float(norms.num_parts)}


def test_the_figures_of_an_observer_are_in_the_steps_and_records_of_all() -> None:
    heard = Heard()
    trainer = line_trainer([heard, Halves()], 0.1, sub_minibatches=2)
    sh.training_session(trainer, source_of_lengths([1] * 8), 2, max_samples=8).train()
    assert [step.figures["halves"] for step in heard.steps] == [2, 0, 2, 0]
    assert heard.of("summary")[-1].figures["halves"] == 0


class Undoing(extend.Activity):
    """Goes back once, from the third step to the first moment, and counts steps."""

    name = "undoing"

    def __init__(self) -> None:
        super().__init__(frequency=extend.Frequency(4, "minibatch"))
        self.steps: list[int] = []
        self.acted: list[int] = []
        self.has_gone = False

    def before_step(self) -> None:
        if not self.run.count("minibatch"):
            self.first = self.run.capture_session()

    def measured(self, step: sh.train.Step) -> None:
        self.steps.append(step.step)

    def check(self) -> None:
        if self.run.count("minibatch") == 3 and not self.has_gone:
            raise extend.GoBack

    def go_back(self, error: Exception) -> bool:
        self.has_gone = True
        self.run.restore_session(self.first)
        return True

    def act(self) -> None:
        self.acted.append(self.run.count("minibatch"))
        self.done()

    def session_state(self) -> dict[str, Any]:
        return {"undoing": self.has_gone}

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        self.has_gone = self.has_gone or state["undoing"]


def test_an_activity_that_is_given_goes_back_and_is_restored(tmp_path: Any) -> None:
    def train(max_samples: int) -> Undoing:
        undoing = Undoing()
        sh.training_session(
            line_trainer([], 0.1),
            source_of_lengths([1] * 8),
            1,
            max_samples=max_samples,
            checkpoint_config=sh.CheckpointConfig(tmp_path),
            activities=undoing,
        ).train()
        return undoing

    first, second = train(5), train(9)
    assert (first.steps, first.acted) == ([1, 2, 3, 1, 2, 3, 4, 5], [4])
    assert second.has_gone
    assert (second.steps, second.acted) == ([6, 7, 8, 9], [8])


@dataclass
class Sums(Observer):
    """Sums of losses and metrics, which are compared by value as all dataclasses are."""

    sums: np.ndarray = field(default_factory=lambda: np.zeros(2))

    def update(self, step: sh.train.Step) -> None:
        self.sums = self.sums + np.array([step.loss, 1.0])

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self.sums.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sums = np.array(state["sums"])


def test_observers_that_are_compared_by_value_are_saved_each(tmp_path: Any) -> None:
    both = Sums(), Sums(np.ones(2))
    trainer = line_trainer(both, 0.1)
    trainer.train_minibatch(source_of_lengths([1, 2, 3]).next_minibatch(3))
    saved = [one.sums.tolist() for one in both]
    trainer.save_checkpoint(tmp_path / "saved")
    both[0].sums = both[1].sums = np.zeros(2)
    trainer.restore_from_checkpoint(tmp_path / "saved")
    assert [one.sums.tolist() for one in both] == saved
