"""The command line as a whole: help, exit codes, JSON, errors in one line."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Call

import sweephand
from sweephand.cli import commands

NO_CORPUS = {
    "demo",
    "ledger",
    "audit",
    "events",
}  # comes first in their words


def test_the_version_is_that_of_the_package() -> None:
    command = [sys.executable, "-m", "sweephand", "--version"]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout.strip() == sweephand.__version__


@pytest.mark.parametrize("name", list(commands()))
def test_the_help_of_every_command_has_an_example(name: str, call: Call) -> None:
    help_text = call(name, "--help")
    assert help_text.code == 0
    assert f"for example:\n  sweephand {name}" in help_text.out
    assert name in call("--help").out


@pytest.mark.parametrize(
    "words",
    [
        ["info"],
        ["index"],
        ["plan", "--size", 500],
        ["verify", "--size", 500, "--places", 1],
        ["bench", "--seconds", 0.01],
        ["trace", "--size", 500, "--step", 2],
        ["find", "--size", 500, "tokens.npz__3"],
    ],
    ids=lambda words: words[0],
)
def test_json_is_all_that_is_written(words: list[object], tokens: Path, call: Call) -> None:
    name, *options = words
    answer = call(name, tokens, *options, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert answer.facts["ok"] is True
    assert call(name, tokens, *options).out.strip()  # and a person sees something


@pytest.mark.parametrize("name", [name for name in list(commands()) if name not in NO_CORPUS])
def test_an_absent_file_is_one_line_on_standard_error(name: str, call: Call) -> None:
    more: dict[str, list[object]] = {"trace": ["--step", 1, "--size", 8], "find": ["x__1"]}
    answer = call(name, "nowhere.npy", *more.get(name, []))
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.startswith(f"sweephand {name}: ")
    assert "there is no file or folder of this name" in answer.err
    assert answer.err.endswith("'nowhere.npy'\n")
    assert answer.err.count("\n") == 1


def test_a_bug_is_not_dressed_up_as_an_error_of_the_user(
    tokens: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr("sweephand.cli.info.run", broken)
    with pytest.raises(AssertionError, match="a bug"):
        call("info", tokens)


def test_a_reader_that_has_seen_enough_is_no_error_to_complain_about(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.arange(40_000.0))
    trace = ["trace", str(tmp_path / "x.npz"), "--step", "0", "--size", "40000"]
    with subprocess.Popen(
        [sys.executable, "-m", "sweephand", *trace],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
