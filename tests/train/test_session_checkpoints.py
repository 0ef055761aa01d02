"""Sessions that save, are preempted, and go on."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.train.small import (
    CNTK_LENGTHS,
    Heard,
    in_order,
    line_trainer,
    source_of_lengths,
)

import sweephand as sh


class TestCheckpoints:
    def test_a_finished_run_does_nothing_and_goes_on_if_there_is_more(
        self, tmp_path: Path
    ) -> None:
        calls: list[int] = []

        def run(limit: int) -> sh.Trainer:
            trainer = line_trainer()
            sh.training_session(
                trainer,
                in_order(),
                4,
                max_samples=limit,
                cv_config=sh.CrossValidationConfig(
                    None, 8, callback=lambda index, *_: calls.append(index)
                ),
                checkpoint_config=sh.CheckpointConfig(tmp_path),
            ).train()
            return trainer

        first = run(20)
        before, folders = list(calls), sorted(tmp_path.iterdir())
        again = run(20)
        assert calls == before
        assert sorted(tmp_path.iterdir()) == folders
        assert np.array_equal(weights(first), weights(again))
        assert run(40).total_number_of_samples_seen >= 40
        assert calls[len(before) :] == [2, 3, 4]

    def test_a_required_checkpoint_must_be_there(self, tmp_path: Path) -> None:
        for restore in (True, tmp_path / "other"):
            config = sh.CheckpointConfig(tmp_path, restore=restore)
            session = sh.training_session(
                line_trainer(), in_order(max_sweeps=1), 4, checkpoint_config=config
            )
            with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
                session.train()

    @pytest.mark.parametrize(
        ("options", "kept"),
        [
            ({}, [5]),
            ({"keep_last": 3}, [3, 4, 5]),
            ({"preserve_all": True}, [0, 1, 2, 3, 4, 5]),
        ],
    )
    def test_old_checkpoints_are_removed_as_configured(
        self, tmp_path: Path, options: dict[str, Any], kept: list[int]
    ) -> None:
        sh.training_session(
            line_trainer(),
            in_order(max_sweeps=1),
            4,
            checkpoint_config=sh.CheckpointConfig(tmp_path, (1, "minibatch"), **options),
        ).train()
        names = sorted(path.name for path in tmp_path.glob("checkpoint-*"))
        assert names == [f"checkpoint-{number:08d}" for number in kept]

    def test_a_refused_checkpoint_changes_neither_model_nor_source(
        self, tmp_path: Path
    ) -> None:
        def session(
            trainer: sh.Trainer, source: sh.MinibatchSource
        ) -> sh.train.TrainingSession:
            config = sh.CheckpointConfig(tmp_path)
            return sh.training_session(
                trainer, source, 4, max_samples=30, checkpoint_config=config
            )

        session(line_trainer(), in_order()).train()
        drawing = line_trainer(stateful={"rng": np.random.default_rng(0)})
        for trainer, source, text in (
            (drawing, in_order(), r"here are \['rng'\]"),
            (line_trainer(), in_order([1, 2]), "another corpus or order: sizes"),
        ):
            with pytest.raises(sh.StateError, match=text):
                session(trainer, source).train()
            assert source.current_position == 0
            assert trainer.total_number_of_samples_seen == 0
            assert not weights(trainer).any()

    def test_what_a_trainer_saved_has_no_position(self, tmp_path: Path) -> None:
        line_trainer().save_checkpoint(tmp_path)
        session = sh.training_session(
            line_trainer(),
            in_order(max_sweeps=1),
            4,
            checkpoint_config=sh.CheckpointConfig(tmp_path),
        )
        with pytest.raises(sh.StateError, match="not saved by a session"):
            session.train()


class TestPreemption:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
    def test_a_signal_ends_the_minibatch_saves_and_exits(
        self, tmp_path: Path, number: signal.Signals
    ) -> None:
        handler = signal.getsignal(number)

        def run(writer: Heard) -> sh.Trainer:
            trainer = line_trainer([writer])
            sh.training_session(
                trainer,
                source_of_lengths(CNTK_LENGTHS),
                4,
                max_samples=60,
                checkpoint_config=sh.CheckpointConfig(tmp_path, frequency=0),
            ).train()
            return trainer

        class Kill(Heard):
            def update(self, step: sh.train.Step) -> None:
                super().update(step)
                if step.step == 5:
                    os.kill(os.getpid(), number)

        killed, rest = Kill(), Heard()
        with pytest.raises(SystemExit) as exit_:
            run(killed)
        assert exit_.value.code == sh.PREEMPTED_EXIT_CODE == 75
        assert signal.getsignal(number) == handler
        run(rest)
        whole = Heard()
        sh.training_session(
            line_trainer([whole]), source_of_lengths(CNTK_LENGTHS), 4, max_samples=60
        ).train()
        assert [len(killed.steps), len(rest.steps)] == [5, len(whole.steps) - 5]
        resumed = [step.loss for step in killed.steps + rest.steps]
        assert resumed == [step.loss for step in whole.steps]


def weights(trainer: sh.Trainer) -> np.ndarray[Any, Any]:
    [learner] = trainer.model.learners
    return learner.parameters["0"].copy()  # type: ignore[attr-defined]
