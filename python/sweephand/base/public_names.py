"""Public names of a package, each imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable

import lazy_loader  # type: ignore[import-untyped]

Found = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]


def attach_names(package: str, file: str) -> Found:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, as its stub has the names.

    The stub is read as text: `lazy_loader.attach_stub` parses it, and three of them were a
    tenth of what a first loop imports.

    Parameters
    ----------
    package, file : str
        Its ``__name__`` and ``__file__``. Beside the file is ``__init__.pyi``, where each name
        has a statement ``from .module import name as name``.
    """
    path = file.rpartition(".")[0] + ".pyi"
    with open(path, encoding="utf-8") as stub:  # noqa: PTH123 (pathlib brings urllib)
        text = stub.read()
    rooms: list[str] = []
    files: dict[str, list[str]] = {}
    for statement in text.split("\nfrom .")[1:]:
        where, name = statement.split(" as ", 1)[0].replace("(", " ").split(" import ")
        if where:
            files.setdefault(where, []).append(name.strip())
        else:
            rooms.append(name.strip())
    found: Found = lazy_loader.attach(package, rooms, files)
    return found
