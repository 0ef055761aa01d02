"""Schedules as JSON holds them in the state of a learner."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sweephand.checks import check_int, check_number
from sweephand.source.schedules.schedule import Schedule
from sweephand.train.checkpoint.read_state import read_optional


def schedule_state(value: Any) -> Any:
    """Return a schedule, or a plain value, as JSON can hold it."""
    return asdict(value) if isinstance(value, Schedule) else value


def read_value(state: Any) -> Any:
    """Return the schedule or plain value that `schedule_state` was given."""
    return read_schedule(state) if isinstance(state, Mapping) else state


def read_schedule(state: Mapping[str, Any]) -> Schedule[float]:
    """Return the schedule of a state, and raise if it is not a possible one."""
    steps = tuple(
        (check_int("the number of epochs", epochs), _finite("a value", value))
        for epochs, value in state["steps"]
    )
    if not steps or state["follows"] not in ("applied", "consumed"):
        raise ValueError(f"it holds the schedule {dict(state)}")
    epoch_size, minibatch_size = (
        read_optional(check_int, name, state[name]) for name in ("epoch_size", "minibatch_size")
    )
    return Schedule(steps, epoch_size, minibatch_size, state["follows"])


def _finite(name: str, value: object) -> float:
    if not 0 <= check_number(name, value) < math.inf:
        raise ValueError(f"{name} must be finite and at least 0, got {value!r}")
    return value  # type: ignore[return-value]
