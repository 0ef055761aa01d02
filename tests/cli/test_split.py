"""``sweephand split`` tells the parts that ``sh.split`` makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import LENGTHS, Call

import sweephand as sh


def test_the_parts_are_those_of_python(tokens: Path, call: Call, tmp_path: Path) -> None:
    options = ["--validation", 0.2, "--test", 0.1, "--seed", 5, "--output", tmp_path / "parts"]
    facts = call("split", tokens, *options, "--json").facts
    parts = sh.split(sh.open(tokens), validation=0.2, test=0.1, seed=5)
    for name, part in zip(("train", "validation", "test"), parts, strict=True):
        with sh.MinibatchSource(part, randomize=False, max_sweeps=1) as source:
            ids = [one for minibatch in source.minibatches(500) for one in minibatch.ids]
            assert facts["parts"][name]["num_samples"] == source.num_samples_per_sweep
        assert facts["parts"][name]["num_sequences"] == len(ids)
        assert Path(facts["files"][name]).read_text().splitlines() == ids
    assert sum(part["num_samples"] for part in facts["parts"].values()) == LENGTHS.sum()


def test_the_python_that_it_shows_runs(tokens: Path, call: Call) -> None:
    shown = call("split", tokens).out
    code = shown[shown.index("import sweephand") :]
    names: dict[str, object] = {}
    exec(code, names)
    assert isinstance(names["train"], sh.Deserializer)
    assert "validation" in names


@pytest.mark.parametrize("share", ["0", "1", "-0.1", "half", "nan"])
def test_what_is_no_share_is_wrong_usage(share: str, tokens: Path, call: Call) -> None:
    answer = call("split", tokens, f"--validation={share}")
    assert answer.code == 2
    assert "must be a share between 0 and 1" in answer.err
