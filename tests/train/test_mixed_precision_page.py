"""The examples of docs/mixed_precision.md run, one after the other, and take their steps."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh

pytest.importorskip("torch")

PAGE = Path(__file__).parents[2] / "docs" / "mixed_precision.md"


def test_the_examples_of_the_page_run() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 5, "a guard, torch, a learner, NumPy, Keras"
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
        assert isinstance(names["result"], sh.StepResult)
        assert names["result"].applied


def test_the_trace_of_the_page_is_what_happens() -> None:
    rows = re.findall(r"^\| (step|scale [a-z ]*) \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    steps, used, after = ([cell.strip() for cell in row.split("|")] for _, row in rows[-3:])
    learner = sh.numpy.SGD([np.zeros(1)], 0.1)
    opt = sh.LossScaleOptimizer(learner, initial_scale=8, dynamic_growth_steps=3)
    for step, before, following in zip(steps, used, after, strict=True):
        assert opt.get_scaled_loss(1.0) == float(before)
        opt.update([np.array([1.0 if step == "c" else np.inf])], 1)
        assert opt.loss_scale == float(following)
