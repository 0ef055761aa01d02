"""What the site adds to the pages: contents, reference and notebooks, each derived."""

import inspect
import json
import re
from pathlib import Path

import pytest
from docs.tools import notebooks
from docs.tools.pages import (
    REFERENCE,
    escaped,
    facade_at,
    listed,
    own_names,
    read_docstring,
    with_commands,
    with_contents,
)
from docs.tools.shown_commands import PAGE, form, make_corpus, run, shown

from sweephand.cli import commands

DOCS = Path(__file__).parents[2] / "docs"
FACADES = [
    *("", ".decode", ".images", ".mxnet", ".numpy", ".ray", ".tfds", ".tfrecord", ".torchft"),
    ".train",
]
OF_TORCH = [".torch", ".torch.distributed", ".torch.megatron", ".torch.torchtitan"]
OF_TORCH += [".torch.transformers"]


def reference(facade: str) -> list[str]:
    """Return the names of a module that pages of the reference ask for."""
    blocks = [
        block
        for page in sorted((DOCS / "api").glob("*.md"))
        for block in REFERENCE.findall(page.read_text())
        if f"{facade}:" in block
    ]
    return [name for block in blocks for module, name in listed(block) if module == facade]


@pytest.mark.parametrize("facade", [f"sweephand{room}" for room in [*FACADES, *OF_TORCH]])
def test_the_reference_has_every_public_name_once(facade: str) -> None:
    if facade.startswith("sweephand.torch") and facade != "sweephand.torchft":
        pytest.importorskip("torch")
    module = facade_at(facade)
    names = own_names(facade)
    public = [name for name in names if not inspect.ismodule(getattr(module, name))]
    assert sorted(reference(facade)) == sorted(public)


def test_every_page_stands_in_the_contents() -> None:
    home = (DOCS / "index.md").read_text()
    listed_pages = set(re.findall(r"^(?:.* <)?([\w/]+)>?$", _trees(home), re.MULTILINE))
    pages = {
        str(path.relative_to(DOCS).with_suffix(""))
        for suffix in ("md", "ipynb")
        for path in DOCS.rglob(f"*.{suffix}")
        if ".ipynb_checkpoints" not in path.parts
    }
    assert listed_pages == pages - {"index"}


def _trees(home: str) -> str:
    return with_contents(home).removeprefix(home)


def test_what_is_no_markup_is_escaped_and_code_is_left() -> None:
    assert escaped("(samples, *sample shape) of |g|") == r"(samples, \*sample shape) of \|g\|"
    assert escaped("``f(*a) | b`` and *all*") == "``f(*a) | b`` and *all*"
    lines = ["A |b|.", "", ">>> f(*a)", "{1} | {2}", "", "|c|"]
    read_docstring(lines, "function", escaped)
    assert lines == [r"A \|b\|.", "", ">>> f(*a)", "{1} | {2}", "", r"\|c\|"]
    lines = ["A grammar::", "", "    a = b | c", "", "    d = |e|", "", "|f|"]
    read_docstring(lines, "function", escaped)
    assert lines == ["A grammar::", "", "    a = b | c", "", "    d = |e|", "", r"\|f\|"]


def test_a_section_of_the_sidebar_is_seen_at_a_glance() -> None:
    trees = re.findall(
        r"```{toctree}\n(.*?)```", _trees((DOCS / "index.md").read_text()), re.DOTALL
    )
    sizes = {tree.splitlines()[1]: len(tree.splitlines()) - 3 for tree in trees}
    assert max(sizes.values()) <= 9, sizes


# -- what the page on the command line shows of commands is what they write, numbers aside --


COMMANDS = shown(PAGE.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the corpus that the page looks at."""
    found = tmp_path_factory.mktemp("shown")
    make_corpus(found)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_writes_what_is_shown(command: str, folder: Path) -> None:
    again = "run `python -m docs.tools.shown_commands --write` and read what it changed"
    assert form(run(command, folder)) == form(COMMANDS[command]), again


def test_the_site_shows_the_help_of_every_command() -> None:
    page = with_commands(PAGE.read_text())
    for name in commands():
        assert f"\n## {name}\n\n```text\nusage: sweephand {name} " in page
    assert "```commands" not in page


# -- the tutorials run, and show what they say that they show --


NEEDS = {"pictures": ["PIL"]}
NAMES = sorted(path.stem for path in notebooks.TUTORIALS.glob("*.ipynb"))


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_runs_and_shows_what_it_showed(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    for package in ["matplotlib", *NEEDS.get(name, [])]:
        pytest.importorskip(package)
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    request.addfinalizer(lambda: torch.set_num_threads(threads))
    torch.set_num_threads(1)  # several wait for each other where other processes run
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    stored = json.loads((notebooks.TUTORIALS / f"{name}.ipynb").read_text())
    for cell, found in zip(stored["cells"], notebooks.run(stored)["cells"], strict=True):
        # What depends on Python's own sources is marked.
        if cell["cell_type"] == "code" and "varies" not in cell["metadata"].get("tags", []):
            assert notebooks.shown(found) == notebooks.shown(cell), "".join(cell["source"])


def test_tutorials_are_found() -> None:
    assert NAMES == ["pictures", "speech", "text"]
