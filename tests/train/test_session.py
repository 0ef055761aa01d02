"""Sessions: limits, what is due when, steering, and resuming."""

import json

import numpy as np
import pytest

import sweephand as sh
from tests.train.small import Heard, line_trainer, source_of_lengths, squared_error_and_misses

# CNTK's own example: 25 samples in 10 sequences, minibatches of 4.
LENGTHS = [7] + [2] * 9


def sizes_of(heard: Heard) -> list[int]:
    return [step.num_samples for step in heard.steps]


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        (20, [7, 4, 4, 4, 2]),
        (60, [7, 4, 4, 4, 4, 2] * 2 + [7, 2, 2]),
        (75, [7, 4, 4, 4, 4, 2] * 3),
    ],
)
def test_the_request_is_cut_at_the_limit_and_the_sequence_is_not(
    limit: int, sizes: list[int]
) -> None:
    heard = Heard()
    source = sh.MinibatchSourceFromData(arrays(), max_samples=10**6)
    sh.training_session(line_trainer([heard]), source, 4, max_samples=limit).train()
    assert sizes_of(heard) == sizes


def arrays() -> dict[str, object]:
    offsets = np.cumsum([0, *LENGTHS])
    rng = np.random.default_rng(5)
    x = rng.normal(size=(25, 2)).astype(np.float32)
    return {"x": (x, offsets), "labels": (x @ np.array([1, -2], np.float32), offsets)}
