"""The imports of the package, by its syntax trees."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "python" / "sweephand"


def modules() -> dict[str, Path]:
    """Return the files of the package by what follows ``sweephand.`` in their names."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, *, with_types: bool = False) -> list[tuple[str, bool]]:
    """Return what a file imports, and whether it does so only when it runs a function.

    What it imports for type checkers alone is left out unless it is asked for.
    """
    tree = ast.parse(path.read_text())
    late = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
    }
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in for_types and not with_types:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in late) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(name, id(node) in late) for name in names]
    return found


def module_of(name: str, known: dict[str, Path]) -> str | None:
    """Return the module of ours that an import names, or that has the name."""
    inner = name.removeprefix("sweephand").lstrip(".")
    while name.startswith("sweephand") and inner:
        if inner in known:
            return inner
        inner = inner.rpartition(".")[0]
    return None
