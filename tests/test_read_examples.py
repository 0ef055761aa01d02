"""The scripts that read each format run, and print something."""

import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "examples").glob("read_*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", "")  # is put back when a script sets it
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:  # a package is not installed here
        if not str(error).startswith("this example needs "):
            raise
        pytest.skip(str(error))
    assert len(capsys.readouterr().out.splitlines()) >= 2


def test_scripts_are_found() -> None:
    assert len(SCRIPTS) >= 9
