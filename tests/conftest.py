"""Settings of every test run."""

import os
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
import pytest

from sweephand import _core
from tests import extent, pairing

# A deadline measures the machine, not the code.
# pytest --hypothesis-profile=thorough looks longer.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=30)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("quick")


# -- samples, or all there is --


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="try every byte, draw, kill and pair, and run the tests marked `exhaustive`",
    )


def pytest_configure(config: pytest.Config) -> None:
    extent.exhaustive = config.getoption("--exhaustive")


def pytest_report_header(config: pytest.Config) -> str:
    return f"core: {_core.__file__} (sanitizers: {_core.testing.sanitizers() or 'none'})"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not extent.exhaustive:  # workers of pytest-xdist do not report what they deselect
        terminalreporter.line(
            "samples of bytes, draws, kills and pairs of cases; --exhaustive tries all"
        )


# -- side by side --


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Use all cores for a run of all tests, unless -n says how many.

    A file stays in one process. One more than there are cores: tests of processes and networks
    wait much.
    """
    config.option.of_all = (
        getattr(config.option, "of_all", False)  # a worker's comes from its controller
        or config.args_source is pytest.Config.ArgsSource.TESTPATHS
    )
    if (
        config.pluginmanager.hasplugin("xdist")
        and "PYTEST_XDIST_WORKER" not in os.environ
        and config.option.numprocesses is None
        and config.option.dist == "no"
        and not config.option.usepdb
        and config.option.of_all
    ):
        cores = (
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        )
        config.option.numprocesses = min((cores or 1) + 1, 8)
        config.option.dist = "loadfile"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long."""
    if extent.exhaustive:
        return
    kept = [item for item in items if not item.get_closest_marker("exhaustive")]
    if config.option.of_all:  # a file that is named tries all its pairs
        kept = pairing.covering(kept)
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


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
