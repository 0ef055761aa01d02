"""Corpora of every kind of stream."""

from __future__ import annotations

import numpy as np
import pytest

import sweephand as sh

LENGTHS = np.random.default_rng(3).integers(2, 40, 60).tolist()


def words(seed: int = 0) -> list[np.ndarray]:
    """Return the bytes of small letters, as tokens."""
    random = np.random.default_rng(seed)
    return [random.integers(97, 123, length).astype(np.int32) for length in LENGTHS]


@pytest.fixture
def tokens() -> sh.ArrayDeserializer:
    """60 sequences of letters with a label each."""
    return sh.ArrayDeserializer({"tokens": words(), "label": np.arange(60) % 3})
