"""``sweephand forget`` tells what to replay, writes the ban, and deletes what holds it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import OFFSETS, Call

import sweephand as sh


def loss(model: Any, minibatch: sh.Minibatch) -> Any:
    values = np.concatenate(minibatch["tokens"].as_sequences()).astype(np.float32) / 1e4
    error = model["w"] - values
    return 0.5 * float(error @ error), [error.sum(keepdims=True)]


def train(tokens: Path, folder: Path, events: Any = None, **options: Any) -> sh.Trainer:
    model = {"w": np.zeros(1, np.float32)}
    learner = sh.numpy.SGD(model, sh.learning_parameter_schedule_per_sample(1e-3))
    trainer = sh.Trainer(model, loss, learner)
    given = {"randomization_seed": 7, **options}
    with sh.MinibatchSource(sh.open(tokens), events=events, **given) as source:
        config = sh.CheckpointConfig(folder, frequency=(2, "minibatch"), preserve_all=True)
        sh.training_session(
            trainer, source, 700, max_samples=14_000, checkpoint_config=config
        ).train()
    return trainer


def write_ids(path: Path, ids: list[str], as_json: bool = False) -> Path:
    path.write_text(json.dumps(ids) if as_json else "\n".join(ids) + "\n\n")
    return path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"layout": sh.Packed(64), "num_lanes": 3},
        {"layout": sh.Bucketed([16, 32, 64])},
        {"randomization_window_in_samples": 2000},
        {"randomize": False},
        {"order": sh.ByScore("length")},
    ],
    ids=str,
)
def test_from_command_to_proof(
    options: dict[str, Any], tokens: Path, tmp_path: Path, call: Call
) -> None:
    run, events = tmp_path / "run", tmp_path / "events.json"
    train(tokens, run, **options)
    with sh.MinibatchSource(sh.open(tokens), randomization_seed=7, **options) as source:
        source.next_minibatch(700)
        ids = source.sequence_ids(4000, 4100)[:3]
    told = write_ids(tmp_path / "ids.txt", ids)
    words = ["forget", "--ids", told, "--checkpoints", run, tokens]
    words += ["--size", 700] if "layout" in options else []
    words += ["--scores", "length"] if "order" in options else []
    before = sorted(run.iterdir())
    facts = call(*words, "--json").facts
    assert facts["ok"]
    assert set(facts["seen"]) == set(ids)
    assert facts["position"] <= min(facts["seen"].values())
    assert 0 < facts["share"] < 1
    assert facts["newest"]["parameters"] == sh.train.parameter_digest(run)
    assert sorted(run.iterdir()) == before
    assert not events.exists()
    assert call(*words, "--write", events).code == 0
    assert sh.events.load(events) == [sh.events.Ban(at=facts["position"], ids=tuple(ids))]
    again = train(tokens, run, events, **options)
    never = train(tokens, tmp_path / "never", [sh.events.Ban(at=0, ids=ids)], **options)
    assert sh.train.parameter_digest(again) == sh.train.parameter_digest(never)
    facts = call(*words, "--write", events, "--delete", "--json").facts
    assert facts["ban"] is None
    assert facts["seen"] == {}
    assert facts["minibatches"] == 0
    assert len(facts["deleted"]) == len(facts["holding"]) > 0
    assert not any(Path(folder).exists() for folder in facts["deleted"])
    assert sh.train.parameter_digest(run) == sh.train.parameter_digest(never)
    assert call(*words, "--write", events, "--json").facts["holding"] == []


def test_a_person_reads_what_was_seen_and_what_to_do(
    tokens: Path, tmp_path: Path, call: Call
) -> None:
    train(tokens, tmp_path / "run")
    ids = [f"tokens.npz__{number}" for number in range(40)]
    told = write_ids(tmp_path / "ids.json", ids, as_json=True)
    found = call(
        "forget", "--ids", told, "--checkpoints", tmp_path / "run", tokens, "--rows", 5
    )
    assert found.code == 0
    assert "40, of which 40 were seen" in found.out
    assert "... and 35 more" in found.out
    assert "the beginning" in found.out
    assert "--write events.json writes the ban" in found.out
    assert "--delete" in found.out


def test_what_was_never_seen_costs_nothing(tokens: Path, tmp_path: Path, call: Call) -> None:
    train(tokens, tmp_path / "run", max_samples=3000)
    with sh.MinibatchSource(sh.open(tokens), randomization_seed=7) as source:
        ids = source.sequence_ids(int(OFFSETS[-1]) - 200, int(OFFSETS[-1]))
    words = ["forget", "--ids", write_ids(tmp_path / "ids", ids)]
    words += ["--checkpoints", tmp_path / "run", tokens]
    facts = call(*words, "--json").facts
    assert facts["never_seen"] == ids
    assert facts["minibatches"] == facts["samples"] == facts["share"] == 0
    assert facts["ban"]["at"] == facts["newest"]["position"]
    assert "nothing: the newest checkpoint" in call(*words).out


def test_mistakes_are_told(tokens: Path, tmp_path: Path, call: Call) -> None:
    run = tmp_path / "run"
    train(tokens, run, layout=sh.Bucketed([16, 32, 64]))
    good = write_ids(tmp_path / "good", ["tokens.npz__3"])
    wrong = write_ids(tmp_path / "wrong", ["tokens__3", "x", "y", "tokens.npz__5"])
    empty = write_ids(tmp_path / "empty", [])
    (tmp_path / "none").mkdir()
    other = tmp_path / "other.json"
    sh.events.save([sh.events.Skip(at=0, stop=9)], other)
    third = tmp_path / "third.json"
    sh.events.save([sh.events.Skip(at=10**9, stop=10**9 + 9)], third)
    for words, code, why in (
        ([wrong, run, tokens], 1, "'tokens__3'; here ids look like 'tokens.npz__0'"),
        ([wrong, run, tokens], 1, "2 more are unknown: 'x', 'y'"),
        ([empty, run, tokens], 1, "has no ids"),
        ([good, tmp_path / "none", tokens], 1, "there is no checkpoint in"),
        ([good, run, tokens], 1, "give minibatch_size"),
        ([good, run, tokens, "--size", 700, "--delete"], 2, "--delete needs --write"),
        (
            [good, run, tokens, "--size", 700, "--events", third, "--write", other],
            1,
            "has other events than the run",
        ),
    ):
        ids, folder, *more = words
        found = call("forget", "--ids", ids, "--checkpoints", folder, *more)
        assert found.code == code, found
        assert why in found.err


def test_the_source_of_a_script_has_all_options(
    tokens: Path, tmp_path: Path, call: Call
) -> None:
    train(tokens, tmp_path / "run", layout=sh.Padded())
    script = tmp_path / "train.py"
    script.write_text(
        "import sweephand as sh\n"
        f"corpus = sh.open({str(tokens)!r})\n"
        "source = sh.MinibatchSource(corpus, randomization_seed=7, layout=sh.Padded(),\n"
        f"                            events={str(tmp_path / 'events.json')!r})\n"
        "other = sh.MinibatchSource(corpus, randomization_seed=8)\n"
    )
    told = write_ids(tmp_path / "ids", ["tokens.npz__7"])
    words = ["forget", "--ids", told, "--checkpoints", tmp_path / "run", "--json"]
    by_path = call(*words, tokens).facts
    for name in ("corpus", "source"):
        assert call(*words, f"{script}:{name}").facts == by_path
    found = call(*words, f"{script}:other")
    assert found.code == 1
    assert "seed is 8 here and 7 in the state" in found.facts["error"]
