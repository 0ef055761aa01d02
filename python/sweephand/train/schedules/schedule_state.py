"""Schedules as JSON holds them in the state of a learner."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sweephand.base.checks import check_int
from sweephand.source.schedules.formula import Formula
from sweephand.source.schedules.schedule import FormulaSchedule, Schedule, StepSchedule
from sweephand.train.arguments import check_rate
from sweephand.train.checkpoint.read_state import read_optional


def schedule_state(value: Any) -> Any:
    """Return a schedule, or a plain value, as JSON can hold it."""
    return asdict(value) if isinstance(value, StepSchedule | FormulaSchedule) else value


def read_value(state: Any) -> Any:
    """Return the schedule or plain value that `schedule_state` was given."""
    return read_schedule(state) if isinstance(state, Mapping) else state


def read_schedule(state: Mapping[str, Any]) -> Schedule[float]:
    """Return the schedule of a state, and raise if it is not possible."""
    if state["follows"] not in ("applied", "consumed"):
        raise ValueError(f"it holds the schedule {dict(state)}")
    minibatch_size = read_optional(check_int, "minibatch_size", state["minibatch_size"])
    if "formula" in state:
        formula = Formula.of_dict(state["formula"])
        return FormulaSchedule(formula, minibatch_size, state["follows"])
    steps = tuple(
        (check_int("the number of epochs", epochs), check_rate("a value", value))
        for epochs, value in state["steps"]
    )
    if not steps:
        raise ValueError(f"it holds the schedule {dict(state)}")
    epoch_size = read_optional(check_int, "epoch_size", state["epoch_size"])
    return StepSchedule(steps, epoch_size, minibatch_size, state["follows"])
