"""The pictures of the pages are drawn by the package, and are those that lie there."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.exhaustive
def test_the_pictures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    subprocess.run([sys.executable, DOCS / "pictures", tmp_path], check=True)
    drawn = {path.name for path in tmp_path.iterdir()}
    examples = {"batch_size.png", "char_lm.png", "ctf_classifier.png"}  # which draw their own
    taken = {"view.png"}  # in a browser, by docs/tools/view_picture.py
    assert drawn == {path.name for path in (DOCS / "images").iterdir()} - examples - taken
    assert all(path.stat().st_size > 5000 for path in tmp_path.iterdir())
