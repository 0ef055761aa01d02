"""Frameworks are tried by hand: SWEEPHAND_FRAMEWORKS=1 python -m pytest tests/frameworks.

They need the extra `frameworks`; engines need `trainers`, and a desk in an actor needs `ray`.
"""

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("SWEEPHAND_FRAMEWORKS"):
        return
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name != "test_pages.py":
            item.add_marker(pytest.mark.skip("set SWEEPHAND_FRAMEWORKS=1 to train with them"))
