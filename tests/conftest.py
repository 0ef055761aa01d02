"""Settings of every test run."""

from collections.abc import Iterator

import hypothesis
import pytest

from sweephand import _core

# A deadline measures the machine, not the code.
# pytest --hypothesis-profile=thorough looks longer.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=30)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("quick")


def pytest_report_header(config: pytest.Config) -> str:
    return f"core: {_core.__file__} (sanitizers: {_core.testing.sanitizers() or 'none'})"


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the indexes of what lies in stores out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEPHAND_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
