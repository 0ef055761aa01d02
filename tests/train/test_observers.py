"""A trainer calls its observers in the order in which a run goes."""

from collections.abc import Mapping
from typing import Any

from tests.train.small import line_trainer, source_of_lengths

import sweephand as sh
from sweephand.train.progress.observer import Observer, TakenStep


class Diary(Observer):
    """Writes down each call with its step."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def begin(self, step: int) -> None:
        self.calls.append(("begin", step))

    def stepped(self, taken: TakenStep) -> None:
        self.calls.append(("stepped", taken.step))
        self.values = dict(taken.values)

    def measured(self, step: sh.train.Step) -> None:
        self.calls.append(("measured", step.step))

    def rewind(self, step: int) -> None:
        self.calls.append(("rewind", step))

    def flush(self, *, to_disk: bool = False) -> None:
        self.calls.append(("flush", int(to_disk)))

    def state(self) -> dict[str, Any]:
        return {"calls": len(self.calls)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.calls.append(("restore", state.get("calls", -1)))


def test_an_observer_follows_steps_saves_and_restores(tmp_path: Any) -> None:
    diary = Diary()
    trainer = line_trainer([diary], 0.1)  # type: ignore[list-item] # no writer
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
    assert not line_trainer([silent], 0.1).report("event", {"message": "m"})  # type: ignore[list-item]
    assert line_trainer([silent, writer], 0.1).report("event", {"message": "m"})  # type: ignore[list-item]
