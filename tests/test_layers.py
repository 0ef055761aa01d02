"""Who may see whom: the rooms of the core by their includes, the package by what it imports."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import sweephand as sh
from sweephand.base.public_names import importable_names
from tests.imports import PACKAGE, imports, module_of, modules

CPP = Path(__file__).parents[1] / "cpp"
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"

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


# -- the package --
# What every room may see.
GROUND = {"base", "errors", "_core"}
SEES = {
    "run": set(),
    "files": {"run"},
    "corpus": {"files"},
    "layouts": {"corpus"},
    "minibatch": {"corpus", "layouts"},
    "maps": {"corpus", "files", "layouts", "minibatch", "run"},
    "deserializers": {"corpus", "files", "maps", "run"},
    "mixtures": {"corpus", "deserializers", "maps"},
    "events": {"run"},
    # and loans, by the door that opens when a source is to lend
    "source": {"corpus", "deserializers", "events", "layouts", "loans", "maps", "minibatch"},
    "loans": {"corpus", "layouts", "minibatch", "source"},
    "lengths": {"corpus", "deserializers", "layouts", "maps", "minibatch", "source"},
    "train": {"corpus", "events", "files", "layouts", "minibatch", "run", "source"},
}
ABOVE = {
    "__init__",
    "__main__",
    "cli",
    "ext",
    "extend",
    "io",
    "learners",
    "logging",
    "mxnet",
    "numpy",
    "tfrecord",
    "torch",
}


def test_a_room_of_the_package_sees_only_the_rooms_below() -> None:
    known, wrong = modules(), []
    for module, path in known.items():
        room = module.split(".")[0]
        if room in ABOVE or not module:
            continue
        for name, is_late in imports(path):
            other = module_of(name, known)
            if other is None:
                continue
            seen = other.split(".")[0]
            may_see = GROUND | ({room} | SEES[room] if room in SEES else set())
            # Torch is imported where tensors are given or asked for, and no sooner.
            if seen not in may_see | {"ext"} and not (seen == "torch" and is_late):
                wrong.append(f"{module} imports {name}")
    assert not wrong


def test_the_core_imports_no_extension() -> None:
    known = modules()
    assert {
        module
        for module, path in known.items()
        if not module.startswith("ext.")
        for name, _ in imports(path, with_types=True)
        if name.startswith("sweephand.ext")
    } == {"mxnet", "io"}, "facades of a few lines alone"


def test_an_extension_imports_public_names_and_its_own_files() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, path in modules().items()
        if module.startswith("ext.")
        for name, _ in imports(path, with_types=True)
        if name.startswith("sweephand.")
        and name.split(".")[1] not in {"extend", *importable_names(sh), "torch"}
        and name.split(".")[1:3] != module.split(".")[:2]
    ]
    assert not wrong


def test_every_room_of_the_package_is_known() -> None:
    assert {module.split(".")[0] for module in modules() if module} == (
        (GROUND - {"_core"}) | SEES.keys() | ABOVE - {"__init__"}
    )


def test_torch_is_imported_in_its_room_alone() -> None:
    assert not [
        module
        for module, path in modules().items()
        if not module.startswith(("torch", "ext.integrations"))
        and any(name.split(".")[0] == "torch" for name, _ in imports(path))
    ]


def test_packages_that_are_heavy_are_imported_when_they_are_needed() -> None:
    heavy = {"fsspec", "matplotlib", "obstore", "pyarrow", "ray", "rich", "scipy"}
    assert not [
        (module, name)
        for module, path in modules().items()
        if not module.startswith(("cli.screen", "torch", "ext."))
        for name, is_late in imports(path)
        if name.split(".")[0] in heavy and not is_late
    ]


def runs(path: Path, module: str, known: dict[str, Path]) -> set[str]:
    """Return the modules of ours that a file runs at some time, late imports included.

    An import runs the packages around a module, too: all but those around the file itself.
    """
    named = {other for name, _ in imports(path) if (other := module_of(name, known))}
    around = {
        ".".join(parts[:depth])
        for parts in (other.split(".") for other in named)
        for depth in range(1, len(parts))
    }
    own = {module[:end] for end, sign in enumerate(module) if sign == "."}
    return (named | (around & known.keys()) - own) - {module}


def circles(sees: dict[str, set[str]]) -> list[str]:
    """Return the modules from which a way of imports leads back to them."""
    found = []
    for module in sees:
        met, todo = set[str](), list(sees[module])
        while todo:
            other = todo.pop()
            if other not in met:
                met.add(other)
                todo += sees[other]
        if module in met:
            found.append(module)
    return sorted(found)


def test_no_files_of_the_package_import_each_other_in_a_circle_not_even_late() -> None:
    known = modules()
    sees = {module: runs(path, module, known) for module, path in known.items()}
    assert any(is_late for path in known.values() for _, is_late in imports(path))
    assert sees["minibatch.minibatch_data"] >= {"torch"}
    assert not circles(sees), "each of these leads back to itself"


def test_no_files_of_the_package_name_each_other_in_a_circle_not_even_in_types() -> None:
    known = modules()
    sees = {
        module: {
            other
            for name, _ in imports(path, with_types=True)
            if (other := module_of(name, known)) and other != module
        }
        for module, path in known.items()
    }
    assert "minibatch.minibatch_data" in sees["minibatch.minibatch"], "types are found at all"
    faces = {module for module, path in known.items() if path.name == "__init__.py"}
    assert not circles({module: seen - faces for module, seen in sees.items()})


def test_the_map_of_the_rooms_is_that_of_the_tree() -> None:
    told = set(re.findall(r"^\| `([\w/]+)` \|", DESIGN.read_text(), re.MULTILINE))
    package = {f"python/sweephand/{path.name}" for path in PACKAGE.iterdir() if path.is_dir()}
    core = {f"cpp/{path.name}" for path in CPP.iterdir() if path.is_dir()}
    is_cache = {"python/sweephand/__pycache__", "python/sweephand/_core"}
    assert told == {"python/sweephand"} | core | package - is_cache


def modules_of(code: str) -> set[str]:
    """Return what a new process has imported when it has run some code."""
    code += "\nimport sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    return set(run.stdout.split())


def test_importing_the_package_imports_nothing_heavy_but_numpy() -> None:
    heavy = {"torch", "pyarrow", "scipy", "matplotlib", "rich", "ml_dtypes", "fsspec", "pandas"}
    modules = {name.split(".")[0] for name in modules_of("import sweephand")}
    assert "sweephand" in modules
    assert not modules & heavy


def test_a_loop_over_arrays_imports_no_other_format_no_files_and_no_stores() -> None:
    modules = modules_of(
        "import numpy, sweephand as sh\n"
        "source = sh.MinibatchSource(sh.ArrayDeserializer({'x': numpy.arange(9)}))\n"
        "source.next_minibatch(4)['x'].values"
    )
    assert "sweephand.deserializers.array" in modules
    other = [
        *("deserializers.formats", "deserializers.units", "deserializers.arrow"),
        *("files.local", "files.source_file", "corpus.node_cache"),
        *("source.state", "maps.mapped", "torch"),
    ]
    assert not modules & {f"sweephand.{name}" for name in other}
    assert not modules & {"concurrent.futures", "difflib", "logging", "urllib.request"}


def test_no_two_headers_define_a_type_of_one_name() -> None:
    """The linker would take one of both for all, in templates over them too.

    Specializations of a template have its name, and arguments after it.
    """
    definition = re.compile(r"^(?:struct|class|enum class) (\w+)(?!<)[^;<]*?\{", re.MULTILINE)
    where: dict[str, list[str]] = {}
    for path in sorted(CPP.rglob("*.hpp")):
        for name in definition.findall(path.read_text()):
            where.setdefault(name, []).append(str(path.relative_to(CPP)))
    assert where, "definitions are found at all"
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_no_two_headers_define_an_inline_function_of_one_name_and_parameters() -> None:
    """Without optimisation the linker takes one of both for all, and either is right alone."""
    definition = re.compile(
        r"^(?:template <[^\n]*>\n)?(?:\[\[.*?\]\] )?(?:inline|constexpr|template)\b[^\n;{(]*?"
        r"\b(\w+)\(([^)]*)\)",
        re.MULTILINE,
    )
    where: dict[tuple[str, ...], set[str]] = {}
    for path in sorted(CPP.rglob("*.hpp")):
        for name, parameters in definition.findall(path.read_text()):
            types = [re.sub(r"\s*\b\w+$", "", one.strip()) for one in parameters.split(",")]
            where.setdefault((name, *types), set()).add(str(path.relative_to(CPP)))
    assert where, "definitions are found at all"
    assert {key: paths for key, paths in where.items() if len(paths) > 1} == {}


def test_no_room_of_the_package_uses_private_names_of_another() -> None:
    """Names like `x._y`, where `_y` is defined in other rooms alone; foreign ones may be."""
    defined: dict[str, set[str]] = {}
    used: list[tuple[str, str, str]] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).parts
        room = place[0] if len(place) > 1 else ""
        names = defined.setdefault(room, set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute):
                if isinstance(node.ctx, ast.Store):
                    names.add(node.attr)
                elif (
                    node.attr.startswith("_")
                    and not node.attr.startswith("__")
                    and ast.unparse(node.value) not in ("self", "cls")
                ):
                    used.append((room, node.attr, f"{path}:{node.lineno} {ast.unparse(node)}"))
    ours = set().union(*defined.values()) - set(dir(NamedTuple("named", [])))
    assert "_engine" in ours, "definitions are found at all"
    found = [text for room, name, text in used if name in ours - defined[room]]
    assert found == []


def test_no_two_classes_of_the_package_have_one_name() -> None:
    """One name, one meaning; private classes belong to their file."""
    where: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert where, "definitions are found at all"
    found = {name: paths for name, paths in where.items() if len(paths) > 1}
    assert found == {
        "DataLoader": [
            "ext/integrations/torchtitan.py",
            "torch/dataset.py",
        ],  # torchtitan's name
    }
