"""``sweephand audit`` derives receipts again, and names the first step that is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Call

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
