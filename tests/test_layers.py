"""Who may see whom: the rooms of the core by their includes, the package by what it imports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

CPP = Path(__file__).parents[1] / "cpp"

MAY_SEE = {
    "base": set(),
    "index": {"base"},
    "order": {"base", "index"},
    "compose": {"base", "index", "order"},
    "run": {"base"},
    "read": {"base", "index", "run"},
    "formats": {"base", "index", "run", "read"},
    "engine": {"base", "index", "order", "compose", "run", "read"},
    "train": {"base"},
    "bind": {"base", "index", "order", "compose", "run", "read", "formats", "engine", "train"},
}
PURE = ["base", "index", "order", "compose"]
# Threads, files, clocks and Python.
IMPURE = re.compile(
    r"thread|stop_token|mutex|shared_mutex|condition_variable|atomic|future|semaphore|latch"
    r"|barrier|fstream|iostream|cstdio|stdio\.h|filesystem|chrono|ctime|time\.h|random"
    r"|unistd\.h|fcntl\.h|pthread\.h|sys/.*|Python\.h|pybind11/.*|numpy/.*"
)


def includes(room: str) -> list[tuple[Path, str, str]]:
    """Return (file, '"' or '<', name) for every include of a room."""
    line = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
    files = sorted(path for path in (CPP / room).rglob("*") if path.suffix in {".hpp", ".cpp"})
    return [(path, *match) for path in files for match in line.findall(path.read_text())]


def test_every_room_is_known() -> None:
    assert {path.name for path in CPP.iterdir() if path.is_dir()} <= MAY_SEE.keys()
    assert includes("base"), "the include lines are found at all"


@pytest.mark.parametrize("room", MAY_SEE)
def test_a_room_sees_only_the_rooms_below(room: str) -> None:
    wrong = [
        f"{path.relative_to(CPP)} includes {name}"
        for path, quote, name in includes(room)
        if quote == '"' and name.split("/")[0] not in MAY_SEE[room] | {room}
    ]
    assert not wrong


@pytest.mark.parametrize("room", PURE)
def test_a_pure_room_knows_no_thread_file_clock_or_python(room: str) -> None:
    wrong = [
        f"{path.relative_to(CPP)} includes <{name}>"
        for path, quote, name in includes(room)
        if quote == "<" and IMPURE.fullmatch(name)
    ]
    assert not wrong


def test_importing_the_package_imports_nothing_heavy_but_numpy() -> None:
    heavy = {"torch", "pyarrow", "scipy", "matplotlib", "rich", "ml_dtypes", "fsspec", "pandas"}
    code = "import sys, sweephand; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    modules = {name.split(".")[0] for name in run.stdout.split()}
    assert "sweephand" in modules
    assert not modules & heavy


def test_no_two_headers_define_a_type_of_one_name() -> None:
    """The linker would take one of both for all, in templates over them too.

    Specializations of a template have its name, and arguments behind it.
    """
    definition = re.compile(r"^(?:struct|class|enum class) (\w+)(?!<)[^;<]*?\{", re.MULTILINE)
    where: dict[str, list[str]] = {}
    for path in sorted(CPP.rglob("*.hpp")):
        for name in definition.findall(path.read_text()):
            where.setdefault(name, []).append(str(path.relative_to(CPP)))
    assert where, "definitions are found at all"
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}
