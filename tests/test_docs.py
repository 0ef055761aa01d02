"""What README and docs show runs: Python as it stands, and the commands as they are spelled."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import sweephand as sh
from sweephand.cli import parser

ROOT = Path(__file__).parents[1]
SKILL = ROOT / "python" / "sweephand" / "SKILL.md"
PAGES = [ROOT / "README.md", SKILL, *sorted((ROOT / "docs").rglob("*.md"))]
# The pages that are read from top to bottom, and the words that a reader has patience for.
MOST_WORDS = {
    "README.md": 750,
    "docs/all.md": 1500,
    "docs/design.md": 3000,
    "docs/distributed.md": 1900,
    "docs/layouts.md": 3800,
    "docs/training.md": 2100,
    "python/sweephand/SKILL.md": 1200,
} | {f"docs/from_{name}.md": 500 for name in ("cntk", "keras", "mxnet", "tfds")}
MOST_WORDS_OF_ALL = 45_000
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


def make_readers_files(folder: Path) -> dict[str, object]:
    """Write the files that a reader of README or SKILL.md has; return what else they have."""
    np.save(folder / "tokens.npy", np.tile(np.arange(100, dtype=np.uint16)[::-1], 100))
    talk = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    (folder / "chat.jsonl").write_text(f"{json.dumps({'messages': talk})}\n" * 200)
    for label in ("cat", "dog"):
        (folder / "pictures" / label).mkdir(parents=True)
        for number in range(50):
            image = pytest.importorskip("PIL.Image").new("RGB", (40, 30), (number, 0, 0))
            image.save(folder / "pictures" / label / f"{number}.png")

    def tokenizer(messages: list[dict[str, str]]) -> tuple[list[int], list[int]]:
        return [3, 1, 4, 1, 5], [0, 0, 0, 1, 1]

    return {"tokenizer": tokenizer}


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
    if page.name in ("README.md", "SKILL.md"):
        names |= make_readers_files(tmp_path)
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


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_names_of_ours_on_a_page_are_there(page: Path) -> None:
    for path in re.findall(r"\bsh((?:\.[A-Za-z_]\w*)+)", page.read_text()):
        found: object = sh
        for part in path.strip(".").split("."):
            if part in ("MinibatchSourceConfig", "py"):
                break  # an example of a name that says what to write instead; a file
            found = getattr(found, part)


def test_every_learner_is_in_the_tables_of_cntk_and_keras() -> None:
    for page in ("from_cntk.md", "from_keras.md"):
        rows = re.findall(r"^\|.*", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        told = set(re.findall(r"\w+", " ".join(rows)))
        assert set(sh.numpy.__all__) - {"Learner"} <= told


def sections(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_sections_that_a_page_links_to_are_there(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#: ]*\.md|)#([^)]+)\)", page.read_text()):
        if not target.endswith("command_line.md"):  # its sections come from the help
            assert anchor in sections(page.parent / target if target else page), anchor


@pytest.mark.parametrize("page", MOST_WORDS)
def test_a_page_is_as_short_as_a_reader_has_patience(page: str) -> None:
    assert len((ROOT / page).read_text().split()) <= MOST_WORDS[page]


def test_all_pages_together_are_read_in_an_evening() -> None:
    words = {name(page): len(page.read_text().split()) for page in PAGES if page != SKILL}
    assert sum(words.values()) <= MOST_WORDS_OF_ALL


def test_the_addresses_of_llms_txt_are_pages() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "llms.txt").read_text())
    assert len(targets) > 5
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_pages_are_found() -> None:
    assert blocks(ROOT / "README.md", "python")
    assert blocks(ROOT / "docs" / "all.md", "python")
