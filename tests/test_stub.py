"""The committed stub of the core says what the core is."""

import subprocess
import sys
from pathlib import Path

import pytest

import sweephand


def stubs(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*.pyi")}


def test_the_stub_is_what_the_generator_writes(tmp_path: Path) -> None:
    pytest.importorskip("pybind11_stubgen")
    command = [sys.executable, "-m", "pybind11_stubgen", "sweephand._core", "-o", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    # The one in this checkout, which an installed package carries along.
    committed = Path(__file__).parents[1] / "python/sweephand/_core"
    assert stubs(committed) == stubs(tmp_path / "sweephand/_core"), "run ./check.sh stub"
    assert Path(sweephand.__file__).with_name("py.typed").exists()
