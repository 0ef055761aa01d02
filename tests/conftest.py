"""Settings of every test run."""

from collections.abc import Generator, Iterator
from typing import Any

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


# -- packages that are not installed --
# A wheel is tested with NumPy, pytest and hypothesis alone: what needs more is skipped, whole
# modules too, wherever the import stands.


def absent_package(error: BaseException | None) -> str | None:
    """Return the package, none of ours, for lack of which an import failed."""
    while error is not None:
        package = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and package not in {"", "sweephand", "tests"}:
            return package
        error = error.__cause__
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    raised = report.call.excinfo
    if report.failed and (package := absent_package(raised and raised.value)):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 1, f"Skipped: {package} is not installed")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    try:
        return (yield)
    except ImportError as error:
        if package := absent_package(error):
            pytest.skip(f"{package} is not installed")
        raise
