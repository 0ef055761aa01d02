"""Settings of every test run."""

import hypothesis
import pytest

from sweephand import _core

# A deadline measures the machine, not the code.
hypothesis.settings.register_profile("sweephand", deadline=None)
hypothesis.settings.load_profile("sweephand")


def pytest_report_header(config: pytest.Config) -> str:
    return f"core: {_core.__file__} (sanitizers: {_core.sanitizers() or 'none'})"
