"""Settings of every test run."""

import hypothesis
import pytest

from sweephand import _core

# A deadline measures the machine, not the code.
# pytest --hypothesis-profile=thorough looks longer.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=30)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("quick")


def pytest_report_header(config: pytest.Config) -> str:
    return f"core: {_core.__file__} (sanitizers: {_core.sanitizers() or 'none'})"
