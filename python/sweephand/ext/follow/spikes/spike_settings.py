"""The settings of a policy against spikes: what is one, and what is done then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from sweephand.ext.follow.spikes.band import LEAST_FIGURES
from sweephand.ext.follow.spikes.spike import Spike
from sweephand.extend import ArgumentTypeError, Step, check_int, check_number, check_path

SpikeAction: TypeAlias = Literal["skip", "bisect", "ignore", "stop"]
SpikeSignal: TypeAlias = Literal["loss", "gradient norm", "both"]


@dataclass(eq=False)
class SpikeSettings:
    """The settings of a `SpikePolicy`, which documents them."""

    threshold: float = 8.0
    action: Literal["skip", "bisect"] | Callable[[Spike], SpikeAction] = "skip"
    signal: SpikeSignal | Callable[[Step], float] = "loss"
    window: int = 64
    patience: int = 1
    reach: int = 4
    frequency: int = 100
    max_spikes: int = 32
    filename: str | Path | None = None

    def __post_init__(self) -> None:
        if not check_number("threshold", self.threshold) > 0:
            raise ValueError(f"threshold must be above 0, got {self.threshold!r}")
        _check_choice("action", self.action, ("skip", "bisect"))
        _check_choice("signal", self.signal, get_args(SpikeSignal))
        check_int("window", self.window, LEAST_FIGURES)
        check_int("patience", self.patience)
        check_int("reach", self.reach, 0)
        check_int("frequency", self.frequency)
        check_int("max_spikes", self.max_spikes)
        if self.filename is not None:
            check_path("filename", self.filename)

    @property
    def has_gradient_norms(self) -> bool:
        """True if norms of gradients are measured."""
        return self.signal in ("gradient norm", "both")

    def figures(self, step: Step) -> dict[str, float]:
        """Return the figures of a step that are looked at, by name."""
        if callable(self.signal):
            return {"signal": self.signal(step)}
        figures = {}
        if self.signal != "gradient norm":
            figures["loss"] = step.loss / step.num_samples
        if self.has_gradient_norms and step.gradient_norm is not None:
            figures["gradient norm"] = step.gradient_norm
        return figures


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if isinstance(value, str) and value in choices:
        return
    message = f"{name} must be {', '.join(map(repr, choices))} or callable, got {value!r:.100}"
    if isinstance(value, str):
        raise ValueError(message)
    if not callable(value):
        raise ArgumentTypeError(message)
