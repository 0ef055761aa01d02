"""Corpora as files, and the command line called in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweephand.cli import main

LENGTHS = np.random.default_rng(5).integers(1, 60, 300)
OFFSETS = np.append(0, np.cumsum(LENGTHS))


@dataclass(frozen=True)
class Outcome:
    """The results of a call of the command line."""

    code: int
    out: str
    err: str

    @property
    def facts(self) -> dict[str, Any]:
        """The whole of standard output as JSON."""
        return json.loads(self.out)  # type: ignore[no-any-return]


Call = Callable[..., Outcome]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command line; wrong usage gives its exit code too."""

    def run(*words: object) -> Outcome:
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """300 sequences of unequal lengths with a label each."""
    path = tmp_path / "tokens.npz"
    values = np.arange(OFFSETS[-1], dtype=np.uint16)
    np.savez(path, tokens=values, tokens_offsets=OFFSETS, label=np.arange(300))
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """1000 rows of 3 numbers."""
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(3000, dtype=np.float32).reshape(1000, 3))
    return path
