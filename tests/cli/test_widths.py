"""What is shown fits its screen, and no word is broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.conftest import Call

from sweephand.cli import commands
from sweephand.terminal.screen import Screen

CALLS: list[list[object]] = [
    ["info"],
    ["index"],
    ["plan", "--size", 500, "--workers", 8, "--chunk-size", 10, "--window-chunks", 12],
    ["verify", "--size", 500, "--places", 1],
    ["bench", "--rounds", 1, "--seconds", 0.01],
    ["trace", "--size", 500, "--step", 2],
    ["find", "--size", 500, "tokens.npz__3"],
]  # fmt: skip


def words_of(text: str) -> list[str]:
    return re.findall(r"[\w,.%\"()+:'-]+", text)


@pytest.fixture
def at_width(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    def run(width: int, *words: object) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        answer = call(*words)
        assert answer.code == 0, answer.err
        return answer.out

    return run  # type: ignore[return-value]


@pytest.mark.parametrize("width", [50, 80])
@pytest.mark.parametrize("words", CALLS, ids=lambda words: words[0])
def test_no_line_is_too_long_and_no_word_is_broken(
    words: list[object], width: int, tokens: Path, at_width: Call, tmp_path: Path
) -> None:
    name, *options = words
    shown = at_width(width, name, tokens, *options)
    broken = [line for line in shown.splitlines() if len(line) > width and " " in line.strip()]
    lines = [line for line in broken if not line.strip().startswith(str(tmp_path))]
    assert not lines
    if name not in {"bench", "verify"}:  # which measure anew, and at random places
        assert set(words_of(shown)) <= set(words_of(at_width(300, name, tokens, *options)))


@pytest.mark.parametrize("width", [50, 80])
@pytest.mark.parametrize("name", list(commands()))
def test_help_is_readable(name: str, width: int, at_width: Call) -> None:
    shown = at_width(width, name, "--help")
    assert max(map(len, shown.splitlines())) <= width
    wide = set(words_of(at_width(300, name, "--help")))
    assert set(words_of(shown)) - wide <= {"-h", "[-h]"}
    for line in shown.splitlines():
        assert line == line.rstrip()


def test_a_table_that_is_too_wide_becomes_lists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "22")
    Screen().table(["", "found", "expected"], [("uniform order", "12.5 %", "1,234,567")])
    assert capsys.readouterr().out.splitlines() == [
        "uniform order",
        "  found     12.5 %",
        "  expected  1,234,567",
    ]


def test_a_command_stays_one_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    command = "sweephand plan folder --size 16384 --workers 8"
    Screen().command(command)
    shown = capsys.readouterr().out
    assert all(len(line) <= 40 for line in shown.splitlines())
    assert re.sub(r" *\\\n *", " ", shown).strip() == command
