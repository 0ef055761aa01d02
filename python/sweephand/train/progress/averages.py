"""Averages of loss and metric over training steps."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from sweephand.base.checks import check_number
from sweephand.train.checkpoint.read_state import read_counts
from sweephand.train.progress.record import Step


@dataclass
class Averages:
    """Averages of training steps."""

    # all steps, and those among them that were skipped
    num_steps: int = 0
    num_skipped: int = 0
    num_samples: int = 0  # label samples of all steps
    # those of steps that were applied: of these are the losses and metrics
    num_averaged: int = 0
    # sums; the metric is None if there is none
    loss: float = 0.0
    metric: float | None = None
    seconds: float = 0.0
    waited_seconds: float = 0.0
    # the figures that observers add, as the last step has them
    others: Mapping[str, float] = field(default_factory=dict)

    def update(self, step: Step) -> None:
        """Add a step."""
        self.num_steps += 1
        self.num_samples += step.num_samples
        self.seconds += step.seconds
        self.waited_seconds += step.waited_seconds
        self.others = step.figures
        if not step.applied:
            self.num_skipped += 1
            return
        self.num_averaged += step.num_samples
        self.loss += step.loss
        if step.metric is not None:
            self.metric = step.metric + (self.metric or 0.0)

    @property
    def average_loss(self) -> float:
        """The loss per label sample; NaN if there is none."""
        return self.loss / self.num_averaged if self.num_averaged else math.nan

    def figures(self) -> dict[str, float | int | str]:
        """Return the averages as the figures of a record."""
        figures: dict[str, float | int | str] = {"loss": self.average_loss}
        if self.metric is not None:
            figures["metric"] = self.metric / self.num_averaged
        figures["num_samples"] = self.num_averaged
        figures["num_steps"] = self.num_steps
        figures["num_skipped"] = self.num_skipped
        if self.seconds > 0:
            figures["samples_per_second"] = self.num_samples / self.seconds
            figures["waiting"] = self.waited_seconds / self.seconds
        return figures | dict(self.others)

    def state_dict(self) -> dict[str, Any]:
        """Return the sums, as JSON can hold them."""
        state = asdict(self)
        if not self.others:
            del state["others"]
        return state

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the averages of a state, or raise the error in it."""
        found = read_counts(cls, {**state, "others": None})
        others = state.get("others", {})
        return replace(
            found, others={name: check_number(name, others[name]) for name in others}
        )
