"""What the site adds to the pages: contents, reference and notebooks, each derived."""

import inspect
import re
from pathlib import Path

import pytest
from docs.tools.pages import (
    REFERENCE,
    escaped,
    facade_at,
    listed,
    own_names,
    read_docstring,
    with_contents,
)

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
