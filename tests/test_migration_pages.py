"""The pages for those who come from elsewhere name what is there."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import sweephand as sh
import sweephand.torch
from sweephand.base.public_names import importable_names

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["from_cntk.md", "from_keras.md", "from_mxnet.md", "from_tfds.md"]
# Words of examples and of other systems' arguments in cells that say "the same".
WORDS = {"mb", "source", "variable", "streams", "x", "unit", "schedule", "lr", "dataset"}


def public(thing: object) -> list[tuple[str, object]]:
    is_room = hasattr(thing, "__all__") and isinstance(thing, ModuleType)
    names = importable_names(thing) if is_room else [n for n in dir(thing) if n[0] != "_"]
    return [(name, getattr(thing, name, None)) for name in names]


def vocabulary() -> set[str]:
    """Return every name of a module, of its classes, and of what they take."""
    found: set[str] = set()
    for module in (sh, sh.train, sh.numpy, sh.mxnet, sh.tfds, sh.torch):
        for name, thing in public(module):
            found.add(name)
            if isinstance(thing, ModuleType) or not callable(thing):
                continue
            found |= parameters(thing)
            for method, value in public(thing) if inspect.isclass(thing) else []:
                found.add(method)
                found |= parameters(value) if callable(value) else set()
    return found


def parameters(thing: object) -> set[str]:
    try:
        return set(inspect.signature(thing).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return set()


def rows(page: str) -> Iterator[list[str]]:
    for line in (DOCS / page).read_text().splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_table_calls_the_same_has_the_same_name(page: str) -> None:
    known = vocabulary() | WORDS
    names = []
    for cells in rows(page):
        first = re.sub(r"\(`[^)]*`\)", "", cells[0])  # another version's names
        for code in re.findall(r"`([^`]+)`", first) if cells[1].startswith("the same") else []:
            text = re.sub(r'"[^"]*"|=[^,)]*|…\w+', "", code)
            names += re.findall(r"[A-Za-z_]\w*", text)
    assert len(names) > 5
    assert sorted(set(names) - known) == []


@pytest.mark.parametrize("page", PAGES)
def test_names_of_ours_are_there(page: str) -> None:
    text = (DOCS / page).read_text()
    for path in re.findall(r"\bsh((?:\.[A-Za-z_]\w*)+)", text):
        found: object = sh
        for name in path.strip(".").split("."):
            if (found, name) == (sh, "MinibatchSourceConfig"):
                break  # the example of a name that says what to write instead
            found = getattr(found, name)


def test_every_learner_is_in_the_tables_of_cntk_and_keras() -> None:
    names = set(sh.numpy.__all__) - {"Learner"}
    for page in ("from_cntk.md", "from_keras.md"):
        told = set(re.findall(r"\w+", " ".join(cell for row in rows(page) for cell in row)))
        assert names <= told
