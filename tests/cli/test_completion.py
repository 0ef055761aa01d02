"""The scripts of ``sweephand completion`` complete what there is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import Call

from sweephand.cli import COMMANDS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_knows_every_command(shell: str, call: Call) -> None:
    pytest.importorskip("shtab")
    answer = call("completion", shell)
    assert answer.code == 0
    assert all(name in answer.out for name in COMMANDS)
    assert "--window-chunks" in answer.out or "window-chunks" in answer.out
    assert call("completion", shell, "--json").facts["script"].strip() == answer.out.strip()


def completed(script: Path, *words: str) -> set[str]:
    """Return what bash offers for the last of some words."""
    line = " ".join(words)
    code = f"""
source {script}
COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words) - 1}
COMP_LINE='{line}'
COMP_POINT={len(line)}
$(complete -p sweephand | sed 's/.*-F \\([^ ]*\\).*/\\1/') sweephand '{words[-1]}' ''
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    run = subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True)
    assert not run.stderr
    return {word.strip() for word in run.stdout.split("\n") if word.strip()}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_choices_and_files(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("shtab")
    script = tmp_path / "sweephand.bash"
    script.write_text(call("completion", "bash").out)
    (tmp_path / "train.npz").touch()
    monkeypatch.chdir(tmp_path)
    assert completed(script, "sweephand", "pla") == {"plan"}
    assert "--window-chunks" in completed(script, "sweephand", "plan", "--win")
    assert completed(script, "sweephand", "info", "--index", "ca") == {"cache"}
    assert "train.npz" in completed(script, "sweephand", "info", "tra")


def test_without_shtab_the_extra_is_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "shtab", None)
    answer = call("completion", "bash")
    assert answer.code == 1
    assert "pip install 'sweephand[completion]'" in answer.err
