"""What README and docs show runs: Python as it stands, and the commands as they are spelled."""

import re
import shlex
from pathlib import Path

import pytest

from sweephand.cli import parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDED = {
    "docs/fine_tuning.md": ["tokenizers", "torch"],
    "docs/video.md": ["av"],
}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE
    )


FORMATS = ROOT / "docs" / "formats.md"  # a section by itself: tests/read/test_formats_page.py


@pytest.mark.parametrize("page", [page for page in PAGES if page != FORMATS], ids=name)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in NEEDED.get(name(page), ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_commands_of_a_page_are_understood(page: Path) -> None:
    for language, prompt in (("sh", ""), ("console", r"\$ ")):
        for block in blocks(page, language):
            for words in re.findall(rf"^{prompt}sweephand (.*)$", block, re.MULTILINE):
                parser().parse_args(shlex.split(words, comments=True))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_files_that_a_page_names_are_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:tests|cpp|docs|python|benchmarks)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path
    for file, test in re.findall(r"`(tests/[\w./]+\.py)::(\w+)`", text):
        assert f"def {test}(" in (ROOT / file).read_text(), test


def test_pages_are_found() -> None:
    assert blocks(ROOT / "README.md", "python")
    assert blocks(FORMATS, "python")
