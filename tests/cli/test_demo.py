"""The demonstration: what it trains on, and that it tells the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Call

import sweephand as sh
from sweephand.cli import demo

STEPS = 40


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Some of the standard library, so that a run is short."""
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("decoder", "encoder", "scanner"):
        text = (Path(json.__file__).with_name(f"{name}.py")).read_text()
        (folder / f"{name}.py").write_text(text)
    (folder / "broken.py").write_text("def f(:\n")
    return folder


def test_the_demonstration_succeeds(sources: Path, tmp_path: Path, call: Call) -> None:
    words = ["demo", "--steps", STEPS, "--seed", 5, "--sources", sources]
    answer = call(*words, "--output", tmp_path / "out", "--json")
    assert answer.code == 0, answer.err
    facts = answer.facts
    assert facts["ok"]
    assert facts["resumed_at_step"] <= facts["killed_after_step"] < STEPS - 1
    assert len(facts["losses"]) == STEPS
    assert facts["losses"][-1] < facts["losses"][0] / 1.5
    assert call("info", tmp_path / "out" / "corpus").code == 0


def test_a_difference_is_told_and_fails(
    sources: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lie(settings: dict[str, Any], kill_at: int | None = None) -> list[demo.Step]:
        return list(demo.train(**settings | {"seed": 6, "saves": None}))

    monkeypatch.setattr(demo, "follow", lie)
    answer = call("demo", "--steps", 20, "--sources", sources, "--output", tmp_path / "out")
    assert answer.code == 1
    assert "NO. Please report it" in " ".join(answer.out.split())


def test_a_copy_that_ends_too_soon_or_fails_is_no_success(
    sources: Path, tmp_path: Path
) -> None:
    demo.read_functions(sources).write(tmp_path)
    settings = {"corpus": str(tmp_path), "steps": 2, "size": 512, "seed": 0, "threads": 1}
    with pytest.raises(ChildProcessError, match="ended with exit code 0"):
        demo.follow(settings | {"saves": None}, kill_at=9)
    with pytest.raises(ChildProcessError, match="ended with exit code 1"):
        demo.follow(settings | {"corpus": str(tmp_path / "absent"), "saves": None})


def test_the_corpus_is_served_as_it_was_read(sources: Path, tmp_path: Path) -> None:
    corpus = demo.read_functions(sources)
    corpus.write(tmp_path / "corpus")
    with sh.MinibatchSource(sh.open(tmp_path / "corpus"), randomize=False) as source:
        served = source.next_minibatch(len(corpus.tokens))["bytes"]
        assert np.array_equal(served.values, corpus.tokens)
        assert np.array_equal(served.offsets, corpus.offsets)
    first = corpus.tokens[: corpus.offsets[1]].tobytes().decode()
    assert first.lstrip().startswith("def ")
    assert corpus.names[0].split()[-1] in first
    with pytest.raises(FileNotFoundError, match="no Python functions below"):
        demo.read_functions(tmp_path / "corpus")
