"""What the site adds to the pages: contents, reference and notebooks, each derived."""

import inspect
import json
import re
from pathlib import Path

import pytest
from docs.tools.pages import (
    REFERENCE,
    as_markdown,
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


def test_the_contents_have_the_sections_of_the_home_page() -> None:
    trees = _trees(
        "# Home\n\n## Start\n\n* [A](a.md): first\n* [B](b/c.ipynb)\n\n## Tutorials\n"
    )
    assert re.findall(r":caption: (.*)", trees) == ["Start", "Tutorials"]
    assert "\nA <a>\nB <b/c>\n" in trees
    assert "\ntutorials/text\n" in trees, "what lies in the folder of a section"


def test_a_notebook_becomes_a_page() -> None:
    shown = {"output_type": "stream", "name": "stdout", "text": ["2\n"]}
    drawn = {"output_type": "display_data", "data": {"image/png": "QQ=="}, "metadata": {}}
    cells = [
        {"cell_type": "markdown", "source": ["# A\n", "text"]},
        {"cell_type": "code", "source": ["print(2)"], "outputs": [shown, drawn]},
    ]
    page = as_markdown(json.dumps({"cells": cells}))
    assert page.startswith("# A\ntext\n\n```python\nprint(2)\n```\n\n```text\n2\n```\n")
    assert "](data:image/png;base64,QQ==)" in page


def test_what_is_no_markup_is_escaped_and_code_is_left() -> None:
    assert escaped("(samples, *sample shape) of |g|") == r"(samples, \*sample shape) of \|g\|"
    assert escaped("``f(*a) | b`` and *all*") == "``f(*a) | b`` and *all*"
    lines = ["A |b|.", "", ">>> f(*a)", "{1} | {2}", "", "|c|"]
    read_docstring(lines, "function", escaped)
    assert lines == [r"A \|b\|.", "", ">>> f(*a)", "{1} | {2}", "", r"\|c\|"]
    lines = ["A grammar::", "", "    a = b | c", "", "    d = |e|", "", "|f|"]
    read_docstring(lines, "function", escaped)
    assert lines == ["A grammar::", "", "    a = b | c", "", "    d = |e|", "", r"\|f\|"]


def test_a_number_is_not_described_by_its_type() -> None:
    lines = (int.__doc__ or "").splitlines()
    read_docstring(lines, "data", 3)
    assert lines == []


def test_a_section_of_the_sidebar_is_seen_at_a_glance() -> None:
    trees = re.findall(
        r"```{toctree}\n(.*?)```", _trees((DOCS / "index.md").read_text()), re.DOTALL
    )
    sizes = {tree.splitlines()[1]: len(tree.splitlines()) - 3 for tree in trees}
    assert max(sizes.values()) <= 9, sizes
