"""CNTK's rooms, and calls of its own spelling."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import sweephand as C

ROOMS = {
    "io": ["MinibatchSource", "CTFDeserializer", "StreamDefs", "INFINITELY_REPEAT"],
    "learners": ["learning_parameter_schedule", "momentum_schedule"],
    "logging": ["ProgressPrinter", "TensorBoardProgressWriter"],
    "train": ["Trainer", "training_session", "CheckpointConfig", "TestConfig"],
}
ELSEWHERE = {
    "io.MinibatchSoure": "is it 'MinibatchSource'?",
    "io.Trainer": "it is sweephand.Trainer",
    "learners.learning_rate_schedule": "learning_parameter_schedule",
    "train.MinibatchSource": "it is sweephand.MinibatchSource",
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
