"""A stream's info stands for its name wherever a stream is named, as in CNTK."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sweephand as sh
import sweephand.torch

LENGTHS = [3, 1, 2, 4]
LAYOUTS = [
    sh.Ragged(),
    sh.Padded(),
    sh.Packed(4),
    sh.Bucketed([2, 4]),
    sh.TruncatedBPTT(2),
    sh.Frames(),
]


def source_of(**options: Any) -> sh.MinibatchSource:
    tokens = [np.arange(1, n + 1) for n in LENGTHS]
    if isinstance(options.get("layout"), sh.Frames | sh.TruncatedBPTT | sh.Packed):
        streams: dict[str, object] = {"x": tokens, "labels": [-one for one in tokens]}
    else:
        streams = {"x": tokens, "labels": np.arange(4)}
    return sh.MinibatchSource(
        sh.ArrayDeserializer(streams), **{"randomize": False, "max_sweeps": 1} | options
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: type(layout).__name__)
def test_a_minibatch_takes_infos_for_names_in_every_layout(layout: sh.Layout) -> None:
    source = source_of(layout=layout)
    minibatch = source.next_minibatch(10)
    for name, info in source.streams.items():
        assert minibatch[info] is minibatch[name]
        assert minibatch.get(info) is minibatch[name]
        assert info in minibatch
    assert list(minibatch) == ["x", "labels"]
    foreign = sh.StreamInfo("foreign", np.float32, (3,))
    assert foreign not in minibatch
    assert minibatch.get(foreign) is None
    with pytest.raises(KeyError, match="foreign"):
        minibatch[foreign]


def test_an_info_finds_its_stream_under_any_key_of_an_input_map() -> None:
    source = source_of()
    info = source.streams.x
    variable = object()
    by_variable = source.next_minibatch(4, input_map={variable: info})
    assert by_variable[info] is by_variable[variable]
    assert source.streams.labels not in by_variable
    by_info = source.next_minibatch(4, input_map={info: info, source["labels"]: "labels"})
    assert list(by_info) == [info, source["labels"]]
    assert by_info[pickle.loads(pickle.dumps(info))] is by_info[info]
    assert [key for key, _ in by_info.provide_data] == [info]
    assert [key for key, _ in by_info.provide_label] == [source["labels"]]


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda pad: sh.Padded(pad_value=pad), 10),
        (lambda pad: sh.Packed(8, pad_value=pad), 16),
        (lambda pad: sh.Bucketed([6], pad_value=pad), 6),
    ],
)
def test_pad_values_are_given_by_info(make: Any, size: int) -> None:
    info = source_of().streams.x
    layout = make({info: -7})
    assert layout == make({"x": -7})
    with source_of(layout=layout) as source, source_of(layout=make({"x": -7})) as other:
        assert -7 in source.next_minibatch(size)["x"].asarray()
        source.restore_from_checkpoint(other.get_checkpoint_state())
    with pytest.raises(ValueError, match="pad_value names 'foreign'"):
        source_of(layout=make({sh.StreamInfo("foreign", np.float32, ()): 1}))


def error(model: Any, minibatch: Any) -> tuple[float, list[NDArray[np.float32]]]:
    return 1.0, [np.ones(1, np.float32)]


def test_a_trainer_takes_an_info_for_its_label_stream() -> None:
    source = source_of()
    weights = np.zeros(1, np.float32)
    learner = sh.numpy.SGD([weights], 0.1)
    info = source.streams.labels
    trainer = sh.Trainer(None, error, learner, label_stream=info)
    minibatch = source.next_minibatch(10)
    assert trainer.count_local_label_samples(minibatch) == 4
    assert trainer.count_local_label_samples({"labels": [1, 2, 3]}) == 3
    source.current_position = 0
    mapped = source.next_minibatch(10, input_map={"a": source.streams.x, "b": info})
    assert trainer.count_local_label_samples(mapped) == 4
    with pytest.raises(ValueError, match="no label stream 'labels', there are: x"):
        trainer.count_local_label_samples(minibatch={"x": [1]})


def test_an_info_is_a_value() -> None:
    by_hand = sh.StreamInfo("x", np.int64, ())
    found = source_of().streams.x
    assert by_hand == found == pickle.loads(pickle.dumps(found))
    assert len({by_hand, found, pickle.loads(pickle.dumps(found))}) == 1
    assert sh.StreamInfo("x", "float32", 3) == sh.StreamInfo("x", np.float32, (3,))
    assert hash(sh.StreamInfo("x", "float32", [3])) == hash(sh.StreamInfo("x", np.float32, 3))
    assert by_hand != sh.StreamInfo("x", np.int32, ())
    assert by_hand != sh.StreamInfo("y", np.int64, ())
    halved = sh.StreamInfo("x", np.int64, (), definition=sh.StreamDef(transforms=[np.negative]))
    assert pickle.loads(pickle.dumps(halved)).definition.transforms == (np.negative,)


class Listed(sh.UserDeserializer):
    """A deserializer as CNTK's users write it: streams are listed, chunks name them."""

    def __init__(self, infos: list[Any]) -> None:
        self.infos = infos

    def stream_infos(self) -> list[sh.StreamInfo]:
        return self.infos

    def num_chunks(self) -> int:
        return 2

    def get_chunk(self, chunk_id: int) -> dict[Any, object]:
        values = np.arange(3, dtype=np.float64) + 10 * chunk_id
        return {"x": values, self.infos[-1]: [b"a", b"bc", b""]}


def test_a_user_deserializer_may_list_its_streams() -> None:
    double = sh.StreamDef(transforms=[lambda values: values * 2])
    doubled = sh.StreamInfo("x", np.float32, (), definition=double)
    text = sh.StreamInfo("text", object, ())
    source = sh.MinibatchSource(Listed([doubled, text]), randomize=False, max_sweeps=1)
    assert source.streams.x == doubled
    minibatch = source.next_minibatch(6)
    assert minibatch[doubled].values.tolist() == [0, 2, 4, 20, 22, 24]
    assert minibatch[doubled].values.dtype == np.float32
    assert minibatch[text].values.tolist() == [b"a", b"bc", b""] * 2
