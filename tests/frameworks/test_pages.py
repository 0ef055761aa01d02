"""What the page of a framework shows stands in the script that was run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OVERVIEW = ROOT / "docs" / "frameworks" / "index.md"
PAGES = sorted(set(OVERVIEW.parent.glob("*.md")) - {OVERVIEW})
SCRIPTS = ROOT / "examples" / "frameworks"


def bare(code: str) -> str:
    """Return code without its white space, which a formatter lays anew in a page."""
    return "".join(code.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_stands_in_its_script(page: Path) -> None:
    script = bare((SCRIPTS / f"{page.stem}_loop.py").read_text())
    blocks = re.findall(r"^```py\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        assert bare(block) in script, block


def test_every_script_has_a_page_that_the_overview_names() -> None:
    names = {path.stem.removesuffix("_loop") for path in SCRIPTS.glob("*_loop.py")}
    assert names == {page.stem for page in PAGES}
    assert names <= set(re.findall(r"\]\((\w+)\.md\)", OVERVIEW.read_text()))
