"""The reports of a trainer to its observers, and the last step that it took."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from sweephand.train.learners.learner import Clock
from sweephand.train.records import (
    Figures,
    Observer,
    Record,
    RecordKind,
    Step,
    StepListener,
    TakenStep,
    as_observer,
)
from sweephand.train.trainer.trained_model import Data, Outcome, TrainedModel

Reader: TypeAlias = Callable[[], float]


class StepReporter:
    """Reports steps, once their results are known, and values that change between them."""

    def __init__(self, writers: Sequence[Any], model: TrainedModel) -> None:
        self._given = [as_observer(one) for one in writers]
        self.observers = [one for one in self._given if one.join(model.workers)]
        self._model = model
        self._scheduled = _scheduled(model)
        self._values: dict[str, float] = {}  # of the present step
        self._reported: dict[str, float] = {}  # as last reported
        self._pending: tuple[Outcome, Step] | None = None  # its results are on their way
        self._last: Step | None = None

    def report(self, kind: RecordKind, step: int, samples: int, figures: Figures) -> bool:
        """Send a record to the observers; return True if any of them shows it."""
        record = Record(kind, step, samples, figures)
        shown = [one.report(record) for one in self.observers]  # all of them receive it
        return any(shown)

    def report_changes(self, clock: Clock) -> None:
        """Report the values that have changed for the next step."""
        if not self.observers:
            return
        for name, (read, least_change) in self._scheduled.items():
            value = self._values[name] = read()
            last = self._reported.get(name)
            if last is None or (value != last and not abs(value - last) < least_change()):
                self._reported[name] = value
                self.report("change", clock.steps + 1, clock.samples, {name: value})

    @contextmanager
    def reporting_only_to(self, calls: Sequence[Callable[[Step], object]]) -> Iterator[None]:
        """Call only these with each step inside; afterwards as if nothing had been reported."""
        kept = self.observers, self._values, self._reported, self._last
        self.observers = [StepListener(call) for call in calls]
        self._values, self._reported = {}, {}
        try:
            yield
        finally:
            self.observers, self._values, self._reported, self._last = kept

    @contextmanager
    def reporting_also_to(self, calls: Sequence[Callable[[Step], object]]) -> Iterator[None]:
        """Call these, too, with each step inside."""
        added = [StepListener(call) for call in calls]
        self.observers += added
        try:
            yield
        finally:
            self.observers = [one for one in self.observers if one not in added]

    def begin(self, steps: int) -> None:
        """Prepare observers for the next step, or raise their errors."""
        for one in self.observers:
            one.begin(steps)

    def settle(self) -> None:
        """Wait for the results of the last step, and until they are durable."""
        self.await_step()
        for one in self.observers:
            one.flush(to_disk=True)

    def rewind(self, steps: int) -> None:
        """Let observers go back to the moment after `steps` steps."""
        for one in self.observers:
            one.rewind(steps)

    def state(self) -> list[dict[str, Any]]:
        """Return the state of each observer that was given; empty while others are called."""
        return [one.state() if self._calls(one) else {} for one in self._given]

    def restore(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Restore observers by the states of worker 0; those without a state start afresh."""
        is_first = self._model.workers.rank == 0
        for i, one in enumerate(self._given):
            if self._calls(one) and (is_first or one.is_shared):
                one.restore(states[i] if i < len(states) else {})

    def wants_part_norms(self, steps: int) -> bool:
        """Return True if an observer wants those of the step after `steps`."""
        return any(_is_due(one, steps) for one in self.observers)

    def _calls(self, observer: Observer) -> bool:
        return any(one is observer for one in self.observers)

    def stepped(
        self,
        minibatch: Data,
        step: int,
        num_samples: int,
        outcome: Outcome | None = None,
        *,
        applied: bool,
    ) -> None:
        """Report a step that was taken, with the values that held for it."""
        if self.observers:
            values = {"applied": applied, "num_samples": num_samples, **self._values}
            losses = () if outcome is None else outcome.losses
            taken = TakenStep(step, minibatch, values, losses)
            for one in self.observers:
                one.stepped(taken)

    def add(self, outcome: Outcome, step: Step) -> None:
        """Report a step, or the previous step while results of this step are on their way.

        The loss and metric of the step are filled in from the outcome.
        """
        if isinstance(outcome.loss, float):
            self._report(outcome, step)
        else:
            self.await_step()
            self._pending = outcome._replace(losses=()), step  # which hold memory

    def await_step(self) -> None:
        """Wait for the results of the last step, and report them."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self._report(*pending)

    def drop_pending(self) -> None:
        """Forget a step whose results have not been read."""
        self._pending = None

    def last_step(self) -> Step:
        """Return the last step, and wait for its results."""
        self.await_step()
        if self._last is None:
            raise RuntimeError("no minibatch was trained yet")
        return self._last

    def _report(self, outcome: Outcome, step: Step) -> None:
        """Read the results of a step, and report them."""
        loss = float(outcome.loss)
        if not self._model.guards and not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss was {loss} in step {step.step}, which changed the parameters"
            )
        metric = None if outcome.metric is None else float(outcome.metric)
        norms = outcome.norms
        gradient_norm = None if norms is None else math.sqrt(float(norms.together))
        # This takes a fifth of the time of _replace.
        figures: dict[str, float] = {}
        self._last = Step(*step[:3], loss, metric, *step[5:8], figures, gradient_norm)
        for one in self.observers:
            is_due = norms is not None and _is_due(one, step.step - 1)
            figures.update(one.figures(self._last, norms if is_due else None))
        for one in self.observers:
            one.measured(self._last)


def _is_due(observer: Observer, steps: int) -> bool:
    every = observer.part_norms_every
    return every > 0 and steps % every == 0


def _scheduled(model: TrainedModel) -> dict[str, tuple[Reader, Reader]]:
    """Return functions that read each value that may change, and the least change to report."""
    readers: dict[str, tuple[Reader, Reader]] = {}
    for i, learner in enumerate(model.learners):
        suffix = f"[{i}]" if len(model.learners) > 1 else ""
        readers[f"learning_rate{suffix}"] = (
            partial(getattr, learner, "learning_rate"),
            partial(getattr, learner.pace, "least_change"),
        )
        for name, schedule in learner.schedules().items():
            readers[f"{name}{suffix}"] = (
                partial(learner.pace.value, schedule),
                partial(getattr, schedule, "least_change"),
            )
    for i, guard in enumerate(model.guards):
        suffix = f"[{i}]" if len(model.guards) > 1 else ""
        readers[f"loss_scale{suffix}"] = partial(getattr, guard, "loss_scale"), float
    return readers
