"""Wrong commands: what was typed, what is said, and the exit code; as JSON too."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sweephand.cli import main


def tokens(folder: Path) -> None:
    offsets = np.arange(0, 101, 5)
    np.savez(folder / "train.npz", tokens=np.arange(100), tokens_offsets=offsets)


def nothing(folder: Path) -> None:
    pass


@dataclass(frozen=True)
class Typed:
    """A wrong command, with what lies in the folder where it is typed."""

    words: str
    code: int
    says: tuple[str, ...]
    make: Callable[[Path], None] = tokens


MISTAKES = [
    Typed("", 2, ("required: COMMAND",)),
    Typed("inof train.npz", 2, ("inof", "info")),
    Typed("info", 2, ("required: PATH",)),
    Typed("info train.npz --sizestream tokens", 2, ("unrecognized arguments: --sizestream",)),
    Typed("info train.npz --index here", 2, ("--index", "auto", "cache", "none")),
    Typed("info trian.npz", 1, ("there is no file or folder", "'train.npz'")),
    Typed("info .", 1, ("the folder '.' is empty",), nothing),
    Typed("plan train.npz --size 0", 2, ("--size: must be positive, got '0'",)),
    Typed("plan train.npz --size 1e4", 2, ("--size: must be a whole number, got '1e4'",)),
    Typed("plan train.npz --window-chunks 2 --window-samples 9", 2, ("not allowed with",)),
    Typed("plan train.npz --seed -1", 2, ("--seed",)),
    Typed("plan train.npz --seed 99999999999999999999", 1, ("randomization_seed",)),
    Typed("plan train.npz --workers 100", 1, ("num_data_partitions", "100")),
    Typed("trace train.npz --size 10", 2, ("--step", "--time", "required")),
    Typed("trace train.npz --step 1", 2, ("required: --size",)),
    Typed("trace train.npz --step 1 --size 10 --workers 2 --rank 2", 1, ("partition_index",)),
    Typed("find train.npz", 2, ("required: ID",)),
    Typed("find train.npz 7", 1, ("here ids look like 'train.npz__0'",)),
    Typed("bench train.npz --seconds never", 2, ("--seconds",)),
    Typed("demo --steps 3", 1, ("needs 20 steps or more, got 3",), nothing),
]


def run(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as end:  # never of a mistake
        raise AssertionError(f"exit {end.code}") from end


@pytest.fixture(params=MISTAKES, ids=lambda typed: typed.words or "nothing")
def typed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Typed:
    wrong: Typed = request.param
    wrong.make(tmp_path)
    monkeypatch.chdir(tmp_path)
    return wrong


def test_a_wrong_command_is_answered_in_one_line(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(typed.words.split()) == typed.code
    out, err = capsys.readouterr()
    assert out == ""
    *usage, message = err.splitlines()
    assert not usage or usage[0].startswith("usage: sweephand")
    assert message.startswith("sweephand")
    assert len(message) < 400
    for words in typed.says:
        assert words in message


def test_under_json_it_is_json_with_the_same_exit_code(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*typed.words.split(), "--json"]) == typed.code
    out, err = capsys.readouterr()
    assert err == ""
    facts = json.loads(out)
    assert set(facts) == {"ok", "error", "code", "where", "hint"}
    assert facts["ok"] is False
    assert "\n" not in facts["error"]
    for words in typed.says:
        assert words in f"{facts['where']} {facts['error']}"
    if typed.code == 2:
        assert facts["hint"].endswith("--help")
