"""What was recorded of TFDS 4.9.10 with TensorFlow 2.21.0, once and by hand.

A recording is a promise: each of its cases holds what was asked of TFDS, and what came. The
script that made them is in the history, as tests/ext/tfds/record_tfds.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "golden" / "tfds"


def recorded(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())
    return cases
