"""What is said twice about the project is said alike: versions, pins, steps and files."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = ["CONTRIBUTING.md", "SECURITY.md"]


def test_pythons_are_those_that_wheels_are_built_for() -> None:
    minors = re.findall(
        r"Programming Language :: Python :: 3\.(\d+)", str(PROJECT["project"]["classifiers"])
    )
    built = re.findall(r"cp3(\d+)-", PROJECT["tool"]["cibuildwheel"]["build"])
    assert minors == built
    assert PROJECT["project"]["requires-python"] == f">=3.{minors[0]}"
    policy = (ROOT / "docs" / "policy.md").read_text()
    assert f"| Python | 3.{minors[0]} to 3.{minors[-1]};" in policy


def test_hooks_are_of_the_versions_that_developers_install() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    extra = dict(one.split("==") for one in PROJECT["project"]["optional-dependencies"]["dev"])
    for repository, name in {
        "ruff-pre-commit": "ruff",
        "mirrors-clang-format": "clang-format",
    }.items():
        found = re.search(rf"{repository}\n +rev: v(.*)\n", hooks)
        assert found is not None
        assert found[1] == extra[name]


def test_the_version_is_one() -> None:
    version = PROJECT["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_addresses_are_of_one_project_that_exists() -> None:
    # There is no public repository yet. Once there is, [project.urls] names it, and with it
    # CITATION.cff; until then nothing leads there.
    addresses = PROJECT["project"].get("urls", {})
    citation = (ROOT / "CITATION.cff").read_text()
    if addresses:
        home = addresses["Homepage"]
        assert all(url.startswith(home) for url in addresses.values())
        assert f"\nrepository-code: {home}\n" in citation
    else:
        pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "CITATION.cff"]
        assert not [page for page in pages if "github.com/sweephand" in page.read_text()]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_uses_is_pinned_to_a_commit(workflow: Path) -> None:
    uses = re.findall(r"uses: (.*)", workflow.read_text())
    assert uses
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", one) for one in uses), uses


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#:]+)", text):
        assert (ROOT / target).exists(), target
    for path in re.findall(r"`((?:tests|cpp|docs|python|benchmarks)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path
    rooms = ROOT / "python" / "sweephand" / "deserializers"
    for file in re.findall(r"`((?:units/)?\w+\.py)`", text):
        assert (rooms / file).exists(), file
    steps = (ROOT / "check.sh").read_text()
    for step in re.findall(r"\./check\.sh (\w+)", text):
        assert re.search(rf"^#   \./check\.sh {step} ", steps, re.MULTILINE), step
