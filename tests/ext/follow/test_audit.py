"""``sweephand audit`` derives receipts again, and names the first step that is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Call
from tests.ext.follow.test_receipt_tampering import forge_field

import sweephand as sh


@pytest.fixture
def receipts(tokens: Path, tmp_path: Path) -> Path:
    """One sweep and a half in packed rows, with content."""
    source = sh.MinibatchSource(
        sh.open(tokens), layout=sh.Packed(64), randomization_seed=5, num_lanes=4
    )
    with sh.train.Receipts(tmp_path / "receipts", content=True) as made:
        for _ in range(40):
            made.record(source.next_minibatch(320))
    return tmp_path / "receipts"


def test_the_header_has_all_options_of_the_source(
    receipts: Path, tokens: Path, call: Call
) -> None:
    answer = call("audit", receipts, tokens, "--json")
    assert answer.code == 0
    assert answer.facts["num_steps"] == 40
    assert answer.facts["mismatch"] is None
    read = call("audit", receipts, tokens, "--content")
    assert read.code == 0
    assert "all as derived" in read.out


def test_the_first_bad_step_is_told(receipts: Path, tokens: Path, call: Call) -> None:
    file = receipts / "0.receipts"
    whole = file.read_bytes()
    file.write_bytes(forge_field(24, 16)(whole, np.random.default_rng(0)))
    answer = call("audit", receipts, tokens, "--json")
    assert answer.code == 1
    wrong = answer.facts["mismatch"]
    assert wrong["part"] == "ids"
    assert answer.facts["num_steps"] == wrong["step"] - 1
    assert "tokens.npz__" in wrong["expected"]
    shown = call("audit", receipts, tokens)
    assert shown.code == 1
    assert f"NOT as derived: step {wrong['step']}: ids should be" in shown.out


def test_another_file_or_head_is_found(
    receipts: Path, tokens: Path, tmp_path: Path, call: Call
) -> None:
    head = call("audit", receipts, tokens, "--json").facts["head"]
    assert call("audit", receipts, tokens, "--head", head).code == 0
    assert call("audit", receipts, tokens, "--head", head[::-1]).code == 1
    other = tmp_path / "other.npz"
    with np.load(tokens) as streams:
        np.savez(other, **{**streams, "label": np.arange(300) + 1})
    found = call("audit", receipts, other, "--json").facts["mismatch"]
    assert found["part"] == "header"
    (tmp_path / "again").mkdir()
    same = other.rename(tmp_path / "again" / "tokens.npz")
    assert call("audit", receipts, same).code == 0, "nothing was read"
    found = call("audit", receipts, same, "--content", "--json").facts["mismatch"]
    assert (found["step"], found["part"]) == (1, "content")


def test_a_script_may_name_the_source(tmp_path: Path, call: Call) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np, sweephand as sh\n"
        "def less(sequence, key):\n"
        "    return {'x': sequence['x'] * key.uniform()}\n"
        "corpus = sh.ArrayDeserializer({'x': np.arange(50.0)}).map(less, random=True)\n"
        "mixture = sh.Mixture({'a': corpus, 'b': corpus}, weights={'a': 1, 'b': 2})\n"
        "def source():\n"
        "    source = sh.MinibatchSource(mixture, randomization_seed=3)\n"
        "    source.events.ban(['a/array__7'], at=40)\n"
        "    return source\n"
        "if __name__ == '__main__':\n"
        f"    with sh.train.Receipts({str(tmp_path / 'run')!r}, content=True) as receipts:\n"
        "        made = source()\n"
        "        made.events.save('events.json')\n"
        "        for _ in range(20):\n"
        "            receipts.record(made.next_minibatch(16))\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        import runpy

        runpy.run_path(str(script), run_name="__main__")
    assert call("audit", tmp_path / "run", f"{script}:source", "--content").code == 0
    corpus = f"{script}:mixture"
    events = ["--events", tmp_path / "events.json"]
    assert call("audit", tmp_path / "run", corpus, *events, "--content").code == 0
    found = call("audit", tmp_path / "run", corpus, "--json").facts["mismatch"]
    assert (found["step"], found["part"]) == (3, "ids"), "it ends at the ban"
    assert call("audit", tmp_path / "run", f"{script}:less").code == 1


def test_where_there_are_no_receipts_that_is_an_error(tokens: Path, call: Call) -> None:
    answer = call("audit", tokens.parent, tokens)
    assert answer.code == 1
    assert "0.receipts" in answer.err
