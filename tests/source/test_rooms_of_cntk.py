"""CNTK's rooms, and calls of its own spelling."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.small import Line, in_order, line_trainer, squared_error
from tests.train.small_torch import minibatch, torch_trainer

import sweephand as C

ROOMS = {
    "io": ["MinibatchSource", "CTFDeserializer", "StreamDefs", "INFINITELY_REPEAT"],
    "learners": ["learning_parameter_schedule", "momentum_schedule"],
    "logging": ["ProgressPrinter", "TensorBoardProgressWriter"],
    "train": ["Trainer", "training_session", "CheckpointConfig", "TestConfig"],
}
ELSEWHERE = {
    "io.StreamInformation": "it is StreamInfo(",
    "io.ImageDeserializer": "it is ImageFolder(map_file)",
    "io.transforms": "sweephand.ext.vision.images",
    "io.MinibatchSoure": "is it 'MinibatchSource'?",
    "io.Trainer": "it is sweephand.Trainer",
    "learners.sgd": "sweephand.torch.Learner",
    "train.distributed": "num_data_partitions",
    "train.MinibatchSource": "it is sweephand.MinibatchSource",
    "logging.TraceLevel": "logging.getLogger('sweephand')",
}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_holds_the_names_that_are_here(room: str) -> None:
    found = getattr(C, room)
    for name in ROOMS[room]:
        assert getattr(found, name) is getattr(C if hasattr(C, name) else C.train, name)
        assert name in dir(found)
    for name in set(found.__all__) - {"StreamDef"}:  # which has what is CNTK's alone
        assert getattr(C, name, None) in (getattr(found, name), None)
    assert issubclass(C.io.StreamDef, C.StreamDef)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_rest_is_answered_by_what_to_write(name: str) -> None:
    room, _, attribute = name.partition(".")
    with pytest.raises(AttributeError) as caught:
        getattr(getattr(C, room), attribute)
    assert ELSEWHERE[name] in str(caught.value)
    assert f"'sweephand.{room}' has no attribute {attribute!r}" in str(caught.value)


def test_the_standard_library_is_not_hidden_by_rooms_of_its_names() -> None:
    import io

    assert io.StringIO
    assert logging.getLogger
    assert C.io is not io  # type: ignore[comparison-overlap]


def test_infos_of_all_streams_are_a_list() -> None:
    source = C.MinibatchSource({"x": np.zeros((4, 2), np.float32), "labels": np.arange(4)})
    assert source.stream_infos() == [source.streams.x, source.streams.labels]
    assert [info.name for info in source.stream_infos()] == ["x", "labels"]


class Keys:
    """A criterion that asks for streams by keys of its own, and notes them."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, model: Any, minibatch: Any) -> Any:
        self.seen |= set(minibatch)
        x, y = minibatch["features"].values, minibatch["labels"].values
        error = x @ model.w - y
        return 0.5 * float(error @ error), [x.T @ error]


def lines(count: int = 40) -> C.MinibatchSource:
    x = np.random.default_rng(1).normal(size=(count, 2)).astype(np.float32)
    return C.MinibatchSource({"x": x, "labels": 3 * x[:, 0]}, max_sweeps=4)


def test_a_session_puts_streams_under_the_keys_of_the_model() -> None:
    source, criterion = lines(), Keys()
    trainer = line_trainer(criterion=criterion)
    given = {"features": source.streams.x, "labels": source.streams.labels}
    C.training_session(
        trainer,
        source,
        8,
        model_inputs_to_streams=given,
        cv_config=C.CrossValidationConfig(lines(16), frequency=40, minibatch_size=4),
        test_config=C.TestConfig(lines(16)),
    ).train()
    assert criterion.seen == {"features", "labels"}
    assert trainer.total_number_of_samples_seen == 160


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"features": "nope"}, ValueError, "no stream 'nope'"),
        (["x", "labels"], TypeError, "is a dict from key to stream"),
        ({"features": "x", "y": "labels"}, ValueError, r"label_stream=source\.streams\.labels"),
    ],
)
def test_wrong_keys_are_refused_when_the_session_is_made(
    given: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        C.training_session(line_trainer(), lines(), 8, model_inputs_to_streams=given)


def test_labels_under_another_key_are_counted_by_their_info() -> None:
    source = lines()

    def criterion(model: Any, minibatch: Any) -> Any:
        return 0.0, [np.zeros(2, np.float32)]

    trainer = line_trainer(criterion=criterion, label_stream=source.streams.labels)
    given = {"features": "x", "y": "labels"}
    C.training_session(trainer, source, 8, model_inputs_to_streams=given).train()
    assert trainer.total_number_of_samples_seen == 160


def test_minibatches_of_sentences_say_their_names_and_numbers() -> None:
    sentences = [[1, 2, 3], [4, 5], [6, 7, 8], [9, 10]]
    batches = list(C.mxnet.BucketSentenceIter(sentences, 2, buckets=[2, 3], seed=3))
    for batch in batches:
        assert (batch.data_names, batch.label_names) == (["data"], ["softmax_label"])
        assert batch.index is not None
        assert batch.index.dtype == np.int64
        for row, number in zip(batch.data[0], batch.index, strict=True):
            assert row.tolist() == sentences[number]
    assert sorted(n for batch in batches for n in batch.index) == [0, 1, 2, 3]  # type: ignore[union-attr]


def test_one_variable_is_minimized_by_itself() -> None:
    var = torch.nn.Parameter(torch.tensor(2.0))
    other = torch.nn.Parameter(torch.tensor(5.0))
    opt = C.LossScaleOptimizer(torch.optim.SGD([var, other], lr=0.25))
    result = opt.minimize(lambda: var**2 + other**2, var_list=var)
    assert result.applied
    assert (var.item(), other.item()) == (1.0, 5.0)


def test_a_scheduler_of_torch_goes_around_the_inner_optimizer() -> None:
    var = torch.nn.Parameter(torch.tensor(1.0))
    opt = C.LossScaleOptimizer(torch.optim.SGD([var], lr=0.5))
    schedule = torch.optim.lr_scheduler.LambdaLR(opt.inner_optimizer, lambda step: 0.5**step)
    opt.minimize(lambda: var * 1.0, var)
    schedule.step()
    assert opt.lr == 0.25
    for name in ("param_groups", "state", "defaults", "register_step_post_hook"):
        with pytest.raises(AttributeError, match=rf"it is opt\.inner_optimizer\.{name}"):
            getattr(opt, name)
    assert repr(opt) == "LossScaleOptimizer(SGD; dynamic scale, now 32768)"


def scaled_line() -> C.Trainer:
    model = Line()
    learner = C.numpy.MomentumSGD([model.w], 0.1, 0.9)
    return C.Trainer(model, squared_error, C.LossScaleOptimizer(learner))


def test_learners_of_arrays_go_on_with_a_loss_scale_that_is_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain, scaled = line_trainer(), scaled_line()
    plain.train_minibatch(in_order().next_minibatch(8))
    plain.save_checkpoint(tmp_path)
    with caplog.at_level(logging.WARNING, "sweephand"):
        scaled.restore_from_checkpoint(tmp_path)
    assert "no loss scale: this one starts at 32768" in caplog.text
    assert scaled.total_number_of_samples_seen == plain.total_number_of_samples_seen
    weights = [one.model.parameters().tensors for one in (plain, scaled)]
    assert repr(weights[0]) == repr(weights[1])


def test_a_run_of_torch_goes_on_with_a_loss_scale_that_it_did_not_have(tmp_path: Path) -> None:
    model, trainer = torch_trainer()
    for _ in range(3):
        trainer.train_minibatch(minibatch())
    trainer.save_checkpoint(tmp_path)
    other, scaled = torch_trainer(loss_scale={})
    scaled.restore_from_checkpoint(tmp_path)
    for one in (trainer, scaled):
        assert one.train_minibatch(minibatch())
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    scaled.save_checkpoint(tmp_path / "scaled")
    with pytest.raises(C.StateError, match="dynamic=False"):
        torch_trainer()[1].restore_from_checkpoint(tmp_path / "scaled")
