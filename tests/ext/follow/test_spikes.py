"""Sessions that go back from spikes: what they find, leave out, report, and leave unchanged."""

import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.follow.spike_runs import (
    KINDS,
    Planted,
    Run,
    lines,
    planted,
    session,
    squared_error,
)
from tests.train.small import Heard

import sweephand as sh

RUNS = int(os.environ.get("SWEEPHAND_POISONED_RUNS", "2"))


def policy_for(kind: str | None, action: Any = "skip", **options: Any) -> sh.SpikePolicy:
    signals = "both" if kind == "n-grams" else "loss"
    return sh.SpikePolicy(action=action, signal=signals, **options)  # type: ignore[arg-type]


def trained(data: Planted, policy: sh.SpikePolicy | None, **options: Any) -> Run:
    run = session(data, policy, **options)
    run.session.train()
    return run


def weights(run: Run) -> bytes:
    return bytes(run.model["w"].tobytes())


class TestPlanted:
    """The runs of the issue: SWEEPHAND_POISONED_RUNS of each kind of poison."""

    @pytest.mark.parametrize("seed", range(RUNS))
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("action", ["skip", "bisect"])
    def test_all_poison_is_found_and_nothing_else(
        self, action: str, kind: str, seed: int
    ) -> None:
        data = planted(seed, kind)
        report = trained(data, policy_for(kind, action), seed=seed).report
        if action == "bisect":
            assert set(report.banned_ids) == data.poison, report
        else:
            assert {spike.outcome for spike in report.spikes} == {"skipped"}
            assert data.poison <= {one for spike in report.spikes for one in spike.ids}
            assert all(data.poison.intersection(spike.ids) for spike in report.spikes), report

    @pytest.mark.parametrize("seed", range(2 * RUNS))
    def test_a_run_without_poison_has_no_spike(self, seed: int) -> None:
        data = planted(seed, None)
        run = trained(data, policy_for("n-grams", "bisect"), seed=seed)
        assert run.report == sh.train.SpikeReport()
        assert weights(run) == weights(trained(data, None, seed=seed))


class TestTrace:
    @pytest.mark.parametrize("action", ["skip", "bisect"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_end_is_that_of_a_run_with_the_same_events(
        self, kind: str, action: str, tmp_path: Path
    ) -> None:
        data = planted(3, kind)
        healed = trained(
            data,
            policy_for(kind, action, frequency=7),
            checkpoint_config=sh.CheckpointConfig(tmp_path, frequency=(5, "minibatch")),
        )
        assert len(healed.report.spikes) > 0
        replayed = trained(data, None, events=list(healed.source.events))
        assert weights(healed) == weights(replayed)
        again = trained(data, None, events=healed.report.events)
        assert weights(healed) == weights(again)

    @pytest.mark.parametrize("action", ["skip", "bisect"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_receipts_are_of_the_steps_that_stay(
        self, kind: str, action: str, tmp_path: Path
    ) -> None:
        data, heard = planted(3, kind), Heard()
        with sh.train.Receipts(tmp_path, content=True) as receipts:
            policy = policy_for(kind, action, frequency=20)
            run = trained(data, policy, writers=[receipts, heard])
            assert run.report.spikes
            audit = receipts.audit(run.source, content=True)
        assert audit.mismatch is None
        assert audit.num_steps == heard.steps[-1].step < len(heard.steps)


class Killed(BaseException):
    pass


class Killer(sh.train.ProgressWriter):
    """A progress writer that ends the run when it is told something."""

    def __init__(self, word: str, count: int = 1) -> None:
        self.word, self.count = word, count

    def write(self, record: sh.train.Record) -> None:
        if self.word in str(record.figures.get("message")):
            self.count -= 1
            if not self.count:
                raise Killed


class TestResume:
    @pytest.mark.parametrize("count", [1, 2])
    @pytest.mark.parametrize("word", [" spikes: back", " banned", "saved"])
    def test_a_run_that_was_killed_comes_to_the_same_end(
        self, word: str, count: int, tmp_path: Path
    ) -> None:
        data = planted(3, "labels")
        policy = policy_for("labels", "bisect", frequency=20)

        def one(folder: str, *writers: Any) -> Run:
            saving = sh.CheckpointConfig(tmp_path / folder, frequency=(15, "minibatch"))
            return session(data, policy, writers=writers, checkpoint_config=saving)

        whole = one("whole")
        whole.session.train()
        with pytest.raises(Killed):
            one("killed", Killer(word, count)).session.train()
        resumed = one("killed")
        resumed.session.train()
        assert weights(resumed) == weights(whole)
        assert list(resumed.source.events) == list(whole.source.events)
        mine, other = resumed.report, whole.report
        assert mine.banned_ids == other.banned_ids
        assert sh.train.SpikeReport.read(tmp_path / "killed" / "spikes.json") == mine

    def test_a_signal_in_the_midst_of_trials_leaves_a_run_that_goes_on(
        self, tmp_path: Path
    ) -> None:
        data = planted(3, "labels")
        policy = policy_for("labels", "bisect")
        whole = trained(data, policy)
        calls = [0]

        def signalling(model: Any, minibatch: sh.Minibatch) -> Any:
            calls[0] += 1
            if minibatch.num_sequences < 9 and minibatch.num_samples < 70 and calls[0] > 40:
                os.kill(os.getpid(), signal.SIGTERM)  # a half: bisection has begun
            return squared_error(model, minibatch)

        saving = sh.CheckpointConfig(tmp_path)
        with pytest.raises(SystemExit):
            trained(data, policy, criterion=signalling, checkpoint_config=saving)
        resumed = trained(data, policy, checkpoint_config=saving)
        assert weights(resumed) == weights(whole)

    def test_a_policy_may_come_and_go(self, tmp_path: Path) -> None:
        data = poisoned_at(83, 563)
        options: dict[str, Any] = {"size": 8, "randomize": False, "sweeps": 1}
        policy = sh.SpikePolicy(action="bisect")

        def one(policy: sh.SpikePolicy | None, samples: int, events: Any = ()) -> Run:
            saving = sh.CheckpointConfig(tmp_path)
            return trained(
                data,
                policy,
                events=events,
                max_samples=samples,
                checkpoint_config=saving,
                **options,
            )

        assert one(None, 200).report == sh.train.SpikeReport()
        second = one(policy, 600)
        [spike] = second.report.spikes
        assert spike.banned_ids == ("array__563",)
        with pytest.raises(sh.StateError, match="events differ"):
            one(None, 640)
        last = one(None, 640, events=sh.train.SpikeReport.read(tmp_path / "spikes.json").events)
        assert last.trainer.consumed.samples == 639

    def test_what_is_no_report_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "spikes.json"
        for told in ("", "[]", '{"spikes": [{}], "events": []}', '{"spikes": [7]}'):
            path.write_text(told)
            with pytest.raises(sh.StateError):
                sh.train.SpikeReport.read(path)


def poisoned_at(*places: int, size: int = 640) -> Planted:
    """Make lines in which sequences of given numbers have labels a thousand times too large."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 4)).astype(np.float32)
    labels = (x @ [2, -1, 1, 0] + rng.normal(0, 0.3, size)).astype(np.float32)
    labels[list(places)] = 1000
    corpus = sh.ArrayDeserializer({"x": x, "labels": labels})
    return Planted(corpus, {f"array__{one}" for one in places}, is_text=False)


class TestCause:
    def one(self, criterion: Any, policy: sh.SpikePolicy, **options: Any) -> Run:
        data = poisoned_at()
        return session(data, policy, criterion=criterion, size=8, randomize=False, **options)

    def breaking(self, at: str) -> Any:
        """Return a criterion for which one sequence has a usual loss and a huge gradient."""

        def criterion(model: Any, minibatch: sh.Minibatch) -> Any:
            loss, [gradient] = squared_error(model, minibatch)
            return loss, [gradient + 1e4 if at in minibatch.ids else gradient]

        return criterion

    @pytest.mark.parametrize("action", ["skip", "bisect"])
    def test_a_minibatch_whose_update_breaks_the_model_is_found_by_what_comes_behind(
        self, action: str
    ) -> None:
        run = self.one(
            self.breaking("array__403"),
            policy_for(None, action),
            sweeps=1,
            learner_of=sh.numpy.SGD,
        )
        run.session.train()
        [spike] = run.report.spikes
        assert (spike.cause_step, spike.step) == (51, 52)
        assert spike.ids == tuple(f"array__{one}" for one in range(400, 408))
        assert spike.outcome == ("skipped" if action == "skip" else "banned")
        assert spike.banned_ids == (() if action == "skip" else ("array__403",))

    @pytest.mark.parametrize("factor", [200, 500, 5000])
    def test_another_level_is_accepted_and_nothing_is_left_out(self, factor: int) -> None:
        def criterion(model: Any, minibatch: sh.Minibatch) -> Any:
            loss, gradients = squared_error(model, minibatch)
            return loss * (factor if minibatch.nominal_time >= 1000 else 1), gradients

        run = self.one(criterion, policy_for(None), sweeps=2)
        run.session.train()
        [spike] = run.report.spikes
        assert spike.step in range(126, 140)
        assert (spike.outcome, spike.cause_step) == ("accepted", None)
        assert list(run.source.events) == []
        assert run.report.events == ()
        plain = self.one(criterion, None, sweeps=2)  # type: ignore[arg-type]
        plain.session.train()
        assert weights(run) == weights(plain)

    def test_a_loss_that_is_nan_for_ever_is_the_error_that_it_was(self) -> None:
        def criterion(model: Any, minibatch: sh.Minibatch) -> Any:
            loss, gradients = squared_error(model, minibatch)
            return math.nan if minibatch.nominal_time >= 400 else loss, gradients

        run = self.one(criterion, policy_for(None))
        with pytest.raises(FloatingPointError, match="step 51"):
            run.session.train()
        assert [spike.outcome for spike in run.report.spikes] == ["accepted"]


class TestActions:
    def one(self, action: Any, *places: int, **options: Any) -> Run:
        policy = sh.SpikePolicy(action=action, **options)
        return session(poisoned_at(*places), policy, size=8, randomize=False, sweeps=1)

    def test_a_callback_decides_for_each_spike(self) -> None:
        asked: list[sh.train.Spike] = []

        def decide(spike: sh.train.Spike) -> Any:
            asked.append(spike)
            return ["skip", "bisect", "ignore"][len(asked) - 1]

        run = self.one(decide, 403, 483, 563)
        run.session.train()
        outcomes = [spike.outcome for spike in run.report.spikes]
        assert outcomes == ["skipped", "banned", "ignored"]
        assert [spike.outcome for spike in asked] == ["seen"] * 3
        assert asked[1].ids == tuple(f"array__{one}" for one in range(480, 488))
        assert asked[1].z_scores["loss"] > 8

    def test_a_callback_stops_training(self) -> None:
        run = self.one(lambda spike: "stop", 403)
        with pytest.raises(sh.train.SpikeError, match=r"step 51, loss .* stopped"):
            run.session.train()
        assert run.report.spikes[0].outcome == "stopped"
        assert run.trainer.consumed.steps < 51

    def test_more_spikes_than_are_allowed_end_training(self) -> None:
        run = self.one("skip", 403, 483, 563, max_spikes=2)
        with pytest.raises(sh.train.SpikeError, match="more than max_spikes=2"):
            run.session.train()
        outcomes = [spike.outcome for spike in run.report.spikes]
        assert outcomes == ["skipped", "skipped", "stopped"]


class TestLossScale:
    def one(self, scale: dict[str, Any], *places: int, bad: float = math.nan) -> Run:
        data = poisoned_at()
        ids = {f"array__{one}" for one in places}

        def scaled(model: Any, minibatch: sh.Minibatch) -> Any:
            loss, [gradient] = squared_error(model, minibatch)
            factor = run.trainer.model.guards[0].get_scaled_loss(1.0)
            if ids.intersection(minibatch.ids):
                gradient = gradient + bad
            return loss, [gradient * np.float32(factor)]

        run = session(
            data,
            policy_for(None),
            size=8,
            randomize=False,
            sweeps=1,
            criterion=scaled,
            loss_scale=scale,
        )
        return run

    def test_too_many_skipped_steps_are_a_spike(self) -> None:
        run = self.one({"initial_scale": 8.0, "max_consecutive_skips": 2}, 403, 411)
        run.session.train()
        [spike] = run.report.spikes
        assert (spike.step, spike.outcome) == (51, "skipped")
        assert spike.z_scores == {"gradient norm": math.inf}


def test_gradient_norms_are_told_and_change_nothing() -> None:
    heard, plain = Heard(), Heard()
    data = poisoned_at()
    trained(data, sh.SpikePolicy(signal="gradient norm"), writers=[heard], size=8, sweeps=1)
    trained(data, None, writers=[plain], size=8, sweeps=1)
    assert all(one.gradient_norm is None for one in plain.steps)
    assert all(one.gradient_norm > 0 for one in heard.steps)  # type: ignore[operator]
    assert [one[:6] for one in heard.steps] == [one[:6] for one in plain.steps]
    model = {"w": np.zeros(4, np.float32)}
    first = next(sh.MinibatchSource(data.corpus).minibatches(8))
    norm = float(np.linalg.norm(squared_error(model, first)[1][0] / 8))
    assert heard.steps[0].gradient_norm == pytest.approx(norm)


def test_with_everything_on_a_run_comes_to_the_end_of_one_with_the_same_events(
    tmp_path: Path,
) -> None:
    data = planted(3, "labels")

    def one(name: str, policy: sh.SpikePolicy | None, events: Any = ()) -> Run:
        validation = sh.MinibatchSource(lines(np.random.default_rng(9), None, set()))
        return trained(
            data,
            policy,
            events=events,
            epoch_size=4000,
            rate=sh.learning_parameter_schedule(0.1, minibatch_size=128),
            checkpoint_config=sh.CheckpointConfig(tmp_path / name, frequency=(50, "minibatch")),
            cv_config=sh.CrossValidationConfig(validation, frequency=3000, max_samples=200),
            lr_control=sh.LearningRateControl(0.01, min_learning_rate=0.02),
            mb_scaling=sh.MinibatchScaling(trial_minibatches=2, max_size=160),
        )

    healed = one("healed", policy_for("labels", "bisect", frequency=25))
    assert healed.report.spikes
    assert weights(healed) == weights(one("plain", None, list(healed.source.events)))
