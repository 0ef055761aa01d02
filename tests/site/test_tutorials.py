"""The tutorials run, and show what they say that they show."""

import json
from pathlib import Path

import pytest
from docs.tools.notebooks import TUTORIALS, run, shown

NEEDS = {"pictures": ["PIL"]}
NAMES = sorted(path.stem for path in TUTORIALS.glob("*.ipynb"))


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
    stored = json.loads((TUTORIALS / f"{name}.ipynb").read_text())
    for cell, found in zip(stored["cells"], run(stored)["cells"], strict=True):
        # What depends on Python's own sources is marked.
        if cell["cell_type"] == "code" and "varies" not in cell["metadata"].get("tags", []):
            assert shown(found) == shown(cell), "".join(cell["source"])


def test_tutorials_are_found() -> None:
    assert NAMES == ["pictures", "speech", "text"]
