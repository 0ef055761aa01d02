"""Public names of a package, each imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import resolve_name

Found = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]


def attach_names(package: str, file: str) -> Found:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, as its stub has the names."""
    path = file.rpartition(".")[0] + ".pyi"
    with open(path, encoding="utf-8") as stub:  # noqa: PTH123 (pathlib brings urllib)
        text = stub.read()
    places: dict[str, str] = {}
    for statement in text.split("\nfrom ")[1:]:
        where, name = statement.split(" as ", 1)[0].replace("(", " ").split(" import ")
        places[name.strip()] = where.strip()

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        where = resolve_name(places[name], package)
        found = vars(import_module(where))
        return found[name] if name in found else import_module(f"{where}.{name}")

    names = sorted(places)
    return find, lambda: names, names
