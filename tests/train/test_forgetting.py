"""A run that goes back and leaves out what is to be forgotten is one that never had it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.train.small import Heard

import sweephand as sh

BANNED = 3


class Bed:
    """A run of random kind: corpora, layout, rates, momentum, scale."""

    def __init__(self, seed: int, folder: Path) -> None:
        rng = np.random.default_rng(seed)
        self.seed, self.folder = seed, folder
        self.layout = [None, sh.Packed(16), sh.Packed(8, split_long="split"), sh.Padded()][
            seed % 4
        ]
        self.is_mixture = bool(rng.integers(2))
        self.scaled = bool(rng.integers(2))
        self.momentum = float(rng.choice([0.0, 0.9]))
        self.size = int(rng.integers(8, 40))
        self.num_samples = int(rng.integers(200, 400))
        self.every = int(rng.integers(2, 6))
        self.rates = [0.01, 0.004, 0.002]
        self.lengths = rng.integers(1, 8, 60)
        self.rng = rng

    def corpus(self) -> sh.Deserializer:
        def part(seed: int, name: str) -> sh.ArrayDeserializer:
            rng = np.random.default_rng(seed)
            offsets = np.append(0, np.cumsum(self.lengths))
            x = rng.normal(size=(int(offsets[-1]), 2)).astype(np.float32)
            y = (x @ np.float32([1, -2])).astype(np.float32)
            return sh.ArrayDeserializer({"x": (x, offsets), "labels": (y, offsets)}, name=name)

        if not self.is_mixture:
            return part(1, "a")
        return sh.Mixture({"a": part(1, "a"), "b": part(2, "b")}, weights={"a": 2, "b": 1})

    def names(self) -> list[str]:
        names = [f"a__{n}" for n in range(len(self.lengths))]
        return (
            names if not self.is_mixture else [f"{c}/{c}__{n[3:]}" for c in "ab" for n in names]
        )

    def source(self, events: Any = None) -> sh.MinibatchSource:
        return sh.MinibatchSource(
            self.corpus(),
            layout=self.layout,
            randomization_seed=self.seed,
            num_lanes=4,
            events=events,
        )

    def trainer(self, writers: Any = ()) -> sh.Trainer:
        model = {"w": np.zeros(2, np.float32)}
        rate = sh.learning_parameter_schedule_per_sample(self.rates, 150)
        learner: Any = sh.numpy.MomentumSGD(model, rate, self.momentum)
        if not self.scaled:
            return sh.Trainer(model, squared_error, learner, writers)
        scaled = sh.LossScaleOptimizer(learner, dynamic_growth_steps=7)

        def criterion(model: Any, minibatch: sh.Minibatch) -> Any:
            loss, [gradient] = squared_error(model, minibatch)
            return loss, [gradient * np.float32(scaled.get_scaled_loss(1.0))]

        return sh.Trainer(model, criterion, scaled, writers)

    def train(
        self, name: str, events: Any = None, writers: Any = (), **config: Any
    ) -> sh.Trainer:
        trainer = self.trainer(writers)
        config = {"preserve_all": True, **config}
        with self.source(events) as source:
            sh.training_session(
                trainer,
                source,
                self.size,
                max_samples=self.num_samples,
                checkpoint_config=sh.CheckpointConfig(
                    self.folder / name, frequency=(self.every, "minibatch"), **config
                ),
            ).train()
        return trainer


def squared_error(
    model: dict[str, NDArray[np.float32]], minibatch: sh.Minibatch
) -> tuple[float, list[NDArray[Any]]]:
    x = np.concatenate(minibatch["x"].as_sequences() or [np.zeros((0, 2), np.float32)])
    y = np.concatenate(minibatch["labels"].as_sequences() or [np.zeros(0, np.float32)])
    error = x @ model["w"] - y
    return 0.5 * float(error @ error), [x.T @ error]


def files(folder: Path) -> dict[str, str]:
    """The SHA-256 of parameters and moments in the newest checkpoint."""
    from sweephand.train.checkpoint.checkpoint_store import find

    checkpoint = find(folder)
    assert checkpoint is not None
    names = [one.name for one in checkpoint.folder.iterdir() if one.suffix == ".safetensors"]
    return {name: checkpoint.sha256(name) for name in names}


@pytest.mark.parametrize("seed", range(8))
def test_a_replay_with_the_ban_is_a_run_that_had_it_from_the_start(
    seed: int, tmp_path: Path
) -> None:
    bed = Bed(seed, tmp_path)
    ids = bed.rng.choice(bed.names(), BANNED, replace=False).tolist()
    never = bed.train("never", [sh.events.Ban(at=0, ids=ids)])
    bed.train("seen")
    with bed.source() as source:
        found = sh.train.plan_forgetting(ids, tmp_path / "seen", source)
    assert found.ban is not None
    heard = Heard()
    again = bed.train("seen", [found.ban], [heard])
    assert sh.train.parameter_digest(again) == sh.train.parameter_digest(never)
    assert files(tmp_path / "seen") == files(tmp_path / "never")
    told = " ".join(str(one.figures["message"]) for one in heard.of("event"))
    if found.replay_from is None:
        assert "starting afresh" in told
    else:
        assert f"going on from {found.replay_from.folder}" in told
        assert all(time is None or time >= found.ban.at for time in found.first_seen.values())


class Killed(Exception):
    """A run ends in the middle."""


class Killer:
    """A progress writer that ends a run at a step."""

    def __init__(self, step: int) -> None:
        self._step = step

    def update(self, step: sh.train.Step) -> None:
        if step.step == self._step:
            raise Killed

    def write(self, record: sh.train.Record) -> None:
        pass


def line(tmp_path: Path, seed: int = 1) -> tuple[Bed, list[str], sh.train.Forgetting]:
    """A finished run, and what it takes to forget what came in the middle."""
    bed = Bed(seed, tmp_path)
    bed.layout, bed.is_mixture, bed.scaled = None, False, False
    bed.size, bed.every = 12, 2
    bed.train("run")
    with bed.source() as source:
        ids = source.sequence_ids(100, 110)
        return bed, ids, sh.train.plan_forgetting(ids, tmp_path / "run", source)


def test_what_is_passed_over_is_said_and_makes_room_first(tmp_path: Path) -> None:
    bed, _, found = line(tmp_path)
    before = {int(one.name[-8:]) for one in (tmp_path / "run").iterdir()}
    assert found.replay_from is not None
    fitting = found.replay_from.number
    heard = Heard()
    bed.train("run", [found.ban], [heard], preserve_all=False, keep_last=fitting + 2)
    told = [str(one.figures["message"]) for one in heard.of("event")]
    assert f"passing over checkpoint-{fitting + 1:08d} to " in told[0]
    assert f"'ban' at {found.ban.at}" in told[0]
    assert told[1] == f"going on from {found.replay_from.folder}"
    after = {int(one.name[-8:]) for one in (tmp_path / "run").iterdir()}
    assert not {number for number in before & after if number > fitting}
    assert len(after) == fitting + 2


def test_a_run_killed_in_its_replay_goes_on_with_it(tmp_path: Path) -> None:
    bed, ids, found = line(tmp_path)
    never = bed.train("never", [sh.events.Ban(at=0, ids=ids)])
    assert found.newest is not None
    assert found.num_minibatches > 4
    with pytest.raises(Killed):
        bed.train("run", [found.ban], [Killer(found.newest.steps - 1)])
    heard = Heard()
    again = bed.train("run", [found.ban], [heard])
    assert "passing over" not in str(heard.of("event")[0].figures["message"])
    assert sh.train.parameter_digest(again) == sh.train.parameter_digest(never)


def test_without_a_checkpoint_that_fits_a_run_begins_afresh_or_says_so(tmp_path: Path) -> None:
    bed, ids, _ = line(tmp_path)
    ban = sh.events.Ban(at=0, ids=ids)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint in .* that fits the events"):
        bed.train("run", [ban], restore=True)
    never = bed.train("never", [ban])
    number = len(list((tmp_path / "run").iterdir()))
    assert sh.train.parameter_digest(bed.train("run", [ban])) == sh.train.parameter_digest(
        never
    )
    assert len(list((tmp_path / "run").iterdir())) > number


def test_requests_after_each_other_go_back_as_far_as_each_needs(tmp_path: Path) -> None:
    bed, ids, found = line(tmp_path)
    events = [found.ban]
    bed.train("run", events)
    with bed.source(events) as source:
        earlier = source.sequence_ids(40, 50)
        second = sh.train.plan_forgetting(earlier, tmp_path / "run", source)
    assert second.ban is not None
    assert second.ban.at <= 40
    events.append(second.ban)
    again = bed.train("run", events)
    never = bed.train("never", [sh.events.Ban(at=0, ids=[*ids, *earlier])])
    assert sh.train.parameter_digest(again) == sh.train.parameter_digest(never)
    with bed.source(events) as source:
        last = sh.train.plan_forgetting([*ids, *earlier], tmp_path / "run", source)
    assert last.ban is None
    assert last.num_minibatches == 0
    assert set(last.first_seen.values()) == {None}
    assert last.newest is not None
    assert last.newest.number not in [one.number for one in last.holding]
    gone = last.delete_holding()
    assert gone
    assert not any(folder.exists() for folder in gone)
    assert last.newest.folder.exists()


def test_a_digest_is_that_of_the_file_of_a_checkpoint(tmp_path: Path) -> None:
    _, _, found = line(tmp_path)
    assert found.newest is not None
    data = (found.newest.folder / "model.safetensors").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert sh.train.parameter_digest(found.newest.folder) == digest
    assert sh.train.parameter_digest(str(tmp_path / "run")) == digest
    w = np.frombuffer(data[-8:], np.float32)
    assert sh.train.parameter_digest({"w": w}) == digest
    with pytest.raises(TypeError, match="trainer, arrays or tensors by name"):
        sh.train.parameter_digest(3)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        sh.train.parameter_digest(tmp_path / "elsewhere")


def test_a_plan_says_what_is_wrong(tmp_path: Path) -> None:
    bed, ids, found = line(tmp_path)
    folder = tmp_path / "run"
    with bed.source() as source:
        with pytest.raises(ValueError, match="no sequence has the id 'x'") as error:
            sh.train.plan_forgetting(["x", *ids, *(f"y{n}" for n in range(9))], folder, source)
        assert "and 5 more" in str(error.value)
        with pytest.raises(TypeError, match="texts"):
            sh.train.plan_forgetting("a__1", folder, source)
        with pytest.raises(FileNotFoundError, match="no checkpoint"):
            sh.train.plan_forgetting(ids, tmp_path, source)
    bed.seed += 1
    with bed.source() as source, pytest.raises(sh.StateError, match="seed is"):
        sh.train.plan_forgetting(ids, folder, source)
    bed.seed -= 1
    bed.train("run", [found.ban])
    with (
        bed.source() as source,
        pytest.raises(sh.StateError, match="1 in the state and 0 here"),
    ):
        sh.train.plan_forgetting(ids, folder, source)


def test_a_damaged_checkpoint_is_no_place_to_replay_from(tmp_path: Path) -> None:
    bed, ids, found = line(tmp_path)
    assert found.replay_from is not None
    (found.replay_from.folder / "model.safetensors").write_bytes(b"")
    with bed.source() as source:
        again = sh.train.plan_forgetting(ids, tmp_path / "run", source)
    assert found.replay_from.folder in again.unread
    assert again.position < found.position
    never = bed.train("never", [sh.events.Ban(at=0, ids=ids)])
    replayed = bed.train("run", [again.ban])
    assert sh.train.parameter_digest(replayed) == sh.train.parameter_digest(never)


def test_a_loop_by_hand_and_frames_are_understood(tmp_path: Path) -> None:
    x = [np.full((3, 1), n, np.float32) for n in range(40)]
    corpus = sh.ArrayDeserializer({"x": x})

    def source() -> sh.MinibatchSource:
        return sh.MinibatchSource(corpus, layout=sh.Frames(), max_sweeps=1)

    def loss(model: Any, minibatch: sh.Minibatch) -> Any:
        error = model["w"] - minibatch["x"].values
        return float((error**2).sum()), [2 * error.sum(axis=0)]

    def train(one: sh.MinibatchSource, folder: Path) -> None:
        model = {"w": np.zeros(1, np.float32)}
        trainer = sh.Trainer(model, loss, sh.numpy.Adam(model, 0.1))
        for minibatch in one.minibatches(8):
            trainer.train_minibatch(minibatch)
        trainer.save_checkpoint(folder, {"place": one.get_checkpoint_state()})

    with source() as one:
        train(one, tmp_path / "run")
        found = sh.train.plan_forgetting(["array__7"], tmp_path / "run", one)
    with source() as one:
        times = [
            minibatch.nominal_time
            for minibatch in one.minibatches(8)
            if any(name.startswith("array__7#") for name in minibatch.ids)
        ]
    assert found.newest is not None
    assert found.newest.position == 120
    first = found.first_seen["array__7"]
    assert first is not None
    assert times[0] <= first < times[0] + 8
    assert found.ban is not None
    assert found.ban.ids == ("array__7",)


def test_a_store_removes_what_it_is_told_and_no_links(tmp_path: Path) -> None:
    from sweephand.train.checkpoint.checkpoint_store import CheckpointStore

    line(tmp_path)
    store = CheckpointStore(tmp_path / "run")
    numbers = store.numbers()
    left = store.folder / f".writing-{99:08d}-{'0' * 32}"
    left.mkdir()
    store.path(numbers[-1]).rename(tmp_path / "elsewhere")
    store.path(numbers[-1]).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="a link is not removed"):
        store.remove(numbers[-1:])
    store.remove(numbers[:2])
    assert store.numbers() == numbers[2:]
    assert not left.exists()
