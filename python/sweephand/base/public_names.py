"""Public names of a package, each imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


Found = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]


def attach_names(package: str, file: str) -> Found:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, as its stub has the names."""
    path = file.rpartition(".")[0] + ".pyi"
    with open(path, encoding="utf-8") as stub:  # noqa: PTH123 (pathlib brings urllib)
        text = stub.read()
    places: dict[str, tuple[str, str]] = {}
    for statement in text.split("\nfrom ")[1:]:
        imported, shown = statement.split(" as ", 1)
        where, name = imported.replace("(", " ").split(" import ")
        places[shown.split(None, 1)[0].rstrip(",")] = where.strip(), name.strip()

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        where, own_name = places[name]
        where = resolve_name(where, package)
        found = vars(import_module(where))
        return found[own_name] if own_name in found else import_module(f"{where}.{own_name}")

    names = sorted(places)
    return find, lambda: names, names


def importable_names(module: ModuleType) -> list[str]:
    """Return the public names of a module, also those that `dir` leaves out."""
    from pathlib import Path  # only here, as it takes its time to import

    file = str(module.__file__)
    stub = Path(file).with_suffix(".pyi")
    if not stub.exists():
        return list(module.__all__)
    return sorted({*module.__all__, *attach_names(module.__name__, file)[2]})


def entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group."""
    found: EntryPoints = import_module("importlib.metadata").entry_points(group=group)
    return found  # its module is slow to import, and rarely needed


def load_added(group: str, name: str) -> Any | None:
    """Return the object that an entry point names, the first one of several; None: of none."""
    return next((one.load() for one in entry_points(group) if one.name == name), None)
