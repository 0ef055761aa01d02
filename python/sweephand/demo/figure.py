"""The figure of the demonstration: losses, scales, and the lengths of the functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand.demo.training import DemoStep
from sweephand.terminal import pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_runs(
    lengths: NDArray[np.integer],
    whole: Sequence[DemoStep],
    killed: Sequence[DemoStep],
    resumed: Sequence[DemoStep],
) -> Figure:
    """Return the figure of three runs: never killed, killed, and gone on."""
    figure, (losses, scales, functions) = pictures.new_figure(
        "A run that was killed and went on, over one that was not", 3
    )
    for steps, look, label in (
        (whole, {"color": "0.75", "linewidth": 5}, "never killed"),
        (killed, {"color": "tab:red"}, "killed"),
        (resumed, {"color": "tab:blue", "linestyle": "--"}, "gone on"),
    ):
        numbers = [step.number for step in steps]
        losses.plot(numbers, [step.loss for step in steps], label=label, **look)
        scales.step(numbers, [step.scale for step in steps], where="post", **look)
    for panel in (losses, scales):
        panel.axvline(killed[-1].number, color="tab:red", linewidth=0.8)
        panel.set_xlabel("step")
    losses.set_ylabel("loss, nats per byte")
    losses.legend()
    scales.set_yscale("log", base=2)
    scales.set_ylabel("loss scale")
    pictures.with_commas(losses.xaxis, scales.xaxis, scales.yaxis)
    pictures.draw_lengths(functions, lengths)
    functions.set(xlabel="bytes in a function", ylabel="functions")
    return figure
