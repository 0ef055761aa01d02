"""The trace in docs/mixed_precision.md is what happens."""

import re
from pathlib import Path

import numpy as np

import sweephand as sh

PAGE = Path(__file__).parents[2] / "docs" / "mixed_precision.md"


def test_the_trace_of_the_page_is_what_happens() -> None:
    rows = re.findall(r"^\| (step|scale [a-z ]*) \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    steps, used, after = ([cell.strip() for cell in row.split("|")] for _, row in rows[-3:])
    learner = sh.numpy.SGD([np.zeros(1)], 0.1)
    opt = sh.LossScaleOptimizer(learner, initial_scale=8, dynamic_growth_steps=3)
    for step, before, following in zip(steps, used, after, strict=True):
        assert opt.get_scaled_loss(1.0) == float(before)
        opt.update([np.array([1.0 if step == "c" else np.inf])], 1)
        assert opt.loss_scale == float(following)
