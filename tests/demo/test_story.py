"""The demonstration kills a real process, and tells the truth about what came after."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from sweephand.cli import main
from sweephand.demo import story
from sweephand.demo.library_text import read_text
from sweephand.demo.training import (
    DemoRun,
    DemoStep,
    Resumed,
    Settings,
    follow,
    from_line,
    to_line,
    train,
)

SOURCES = Path(json.__file__).parent
STEPS = 80


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    read_text(SOURCES).write(tmp_path / "corpus")
    return Settings(
        corpus=tmp_path / "corpus",
        steps=STEPS,
        size=512,
        seed=3,
        num_threads=1,
        prefetch=2,
        checkpoints=tmp_path / "checkpoints",
        checkpoint_steps=6,
    )


def demo(folder: Path, *more: str) -> int:
    words = ["--sources", str(SOURCES), "--output", str(folder), "--size", "512"]
    return main(["demo", *words, "--steps", str(STEPS), *more])


def follow_here(
    settings: Settings, *, kill_at: int | None = None
) -> Iterator[DemoStep | Resumed]:
    """Stand in for `follow`, without a process."""
    return islice(train(settings), None if kill_at is None else kill_at + 1)


def test_the_demonstration_succeeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(tmp_path, "--json", "--seed", "5") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["ok"]
    assert facts["seed"] == facts["state"]["seed"] == 5
    assert facts["records"]["same"]
    assert all(0 < fill <= 1 for fill in facts["records"]["fills"].values())
    assert facts["resumed_at_step"] <= facts["killed_after_step"] < STEPS - 1
    killed, resumed = facts["checks"]
    assert (killed["first_step"], killed["last_step"]) == (0, facts["killed_after_step"])
    assert (resumed["first_step"], resumed["last_step"]) == (
        facts["resumed_at_step"],
        STEPS - 1,
    )
    assert len(facts["losses"]) == STEPS
    assert facts["losses"][-1] < facts["losses"][0] / 1.5
    assert facts["skipped_steps"]  # the loss scale had something to do
    assert len(set(facts["scales"])) > 1
    assert 0 < facts["restore_to_first_minibatch_seconds"] < 60
    assert Path(facts["png"]).read_bytes().startswith(b"\x89PNG")


def test_what_it_says_to_try_next_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "follow", follow_here)
    assert demo(tmp_path) == 0
    lines = capsys.readouterr().out.replace("\\\n", "").splitlines()
    commands = [line.split()[1:] for line in lines if line.startswith("sweephand ")]
    assert [words[0] for words in commands] == ["info", "plan", "trace", "find", "verify"]
    for words in commands:
        assert main(words) == 0


def test_a_difference_is_told_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def off_by_a_bit(settings: Settings, **options: int) -> Iterator[DemoStep | Resumed]:
        for event in follow_here(settings, **options):
            if isinstance(event, DemoStep) and event.number == STEPS - 1:
                yield replace(event, loss=float(np.nextafter(event.loss, 0)))
            else:
                yield event

    monkeypatch.setattr(story, "follow", off_by_a_bit)
    assert demo(tmp_path) == 1
    shown = capsys.readouterr().out
    assert "The runs differ" in shown
    assert "NO" in shown


def test_another_minibatch_is_a_difference() -> None:
    whole = [DemoStep(n, 10 * n, f"digest {n}", 1.0 / 3, 8.0, True) for n in range(4)]
    same = story.compare(whole[2:], whole)
    assert same == {
        "first_step": 2,
        "last_step": 3,
        "same_minibatch": True,
        "same_loss": True,
        "same_scale": True,
    }
    assert not story.compare([replace(whole[2], digest="other")], whole)["same_minibatch"]
    assert not story.compare([replace(whole[2], nominal_time=21)], whole)["same_minibatch"]
    assert not story.compare([replace(whole[2], scale=4.0)], whole)["same_scale"]
    assert not story.compare([replace(whole[2], applied=False)], whole)["same_scale"]


def test_a_killed_copy_leaves_its_last_checkpoint(settings: Settings) -> None:
    killed = list(follow(settings, kill_at=20))
    assert [event.number for event in killed if isinstance(event, DemoStep)] == list(
        range(len(killed))
    )
    assert 20 < len(killed) < STEPS
    run = DemoRun()
    state = run.restore(settings.checkpoints)
    step = run.trainer.consumed.steps
    assert step in range(18, len(killed) + 1, 6)
    assert state is not None
    last = killed[step - 1]
    assert isinstance(last, DemoStep)
    assert last.nominal_time < state["position"] <= last.nominal_time + 4096


def test_a_run_that_goes_on_is_the_run_that_was_not_killed(settings: Settings) -> None:
    whole = list(train(replace(settings, checkpoints=None)))
    list(train(replace(settings, steps=40)))
    place, *steps = train(replace(settings, num_threads=0, prefetch=5))
    assert isinstance(place, Resumed)
    assert place.step == 36
    assert steps == whole[36:]


def test_a_copy_that_ends_too_soon_is_no_success(settings: Settings) -> None:
    with pytest.raises(ChildProcessError, match="before it could be killed"):
        list(follow(replace(settings, steps=5), kill_at=50))


def test_a_copy_that_fails_is_no_success(
    settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ChildProcessError, match="failed with exit code 1"):
        list(follow(replace(settings, corpus=Path("nowhere"))))
    assert "nowhere" in capfd.readouterr().err


def test_what_a_copy_tells_keeps_every_bit() -> None:
    step = DemoStep(3, 12345, "abc", 0.1 + 0.2, 256.0, False)
    place = Resumed(3, {"position": 1}, 1 / 3)
    assert from_line(to_line(step)) == step
    assert from_line(to_line(place)) == place
