"""How large the project is, beside the budget of its house guide: `./check.sh size`.

Lines are all lines of files. The closure of a source over arrays is found by the imports in
the syntax tree, those in functions and for types included, up to the doors of other rooms:
packages that import a name of their stub when it is asked for.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.imports import PACKAGE, imports, module_of, modules

ROOT = Path(__file__).parents[1]
# What each part may have at most, of lines and of files. Limits only become smaller: the budget
# is 40,000 and 16,000 lines, 12,000 in 75 files, 26,000 and 57,000.
LIMITS: dict[str, tuple[int, int | None]] = {
    "core": (38_950, 176),
    "extensions": (15_770, 66),
    "a source over arrays": (9_620, 51),
    "C++": (25_750, 167),
    "tests": (55_510, None),
}


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the checkout that match, new ones included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\n")
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def lines_of(files: Iterable[Path]) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in files)


def closure(*names: str) -> set[Path]:
    """Return the files that modules import, and those import."""
    known, todo, found = modules(), list(names), set[str]()
    while todo:
        module = todo.pop()
        if module not in found:
            found.add(module)
            named = (name for name, _ in imports(known[module], with_types=True))
            todo += [other for name in named if (other := module_of(name, known))]
    return {known[module] for module in found}


def measured() -> dict[str, tuple[int, int]]:
    """Return lines (of pages words) and files of each part."""
    package = tracked("python/sweephand/*.py")
    parts = {
        "core": [path for path in package if PACKAGE / "ext" not in path.parents],
        "extensions": [path for path in package if PACKAGE / "ext" in path.parents],
        "a source over arrays": sorted(closure("source.source", "deserializers.array")),
        "C++": tracked("cpp/*.[ch]pp"),
        "tests": tracked("tests/*.py", "tests/*.[ch]pp"),
    }
    found = {name: (lines_of(files), len(files)) for name, files in parts.items()}
    pages = tracked("docs/*.md", "README.md")
    words = sum(len(re.findall(r"\S+", path.read_text())) for path in pages)
    return found | {"pages, in words": (words, len(pages))}


def main() -> int:
    """Print the table; return 1 if a part is over its limit."""
    is_over = False
    print(f"{'':22}{'lines':>8}{'limit':>8}{'files':>7}{'limit':>7}")
    for name, counts in measured().items():
        shown = ""
        for count, limit, width in zip(
            counts, LIMITS.get(name, (None, None)), (8, 7), strict=True
        ):
            shown += f"{count:>{width},}{'' if limit is None else f'{limit:,}':>{width}}"
            is_over |= limit is not None and count > limit
        print(f"{name:22}{shown}")
    if is_over:
        print(
            "size: over the budget; a feature that comes in names what leaves", file=sys.stderr
        )
    return int(is_over)


if __name__ == "__main__":
    sys.exit(main())
