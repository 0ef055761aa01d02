"""What loops of others do with a minibatch: move it, make it anew, pickle it, measure it."""

import pickle
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import default_convert

import sweephand as sh
import sweephand.torch


def make_source(**options: Any) -> sh.MinibatchSource:
    tokens = np.arange(10), [0, 3, 7, 10]
    corpus = sh.ArrayDeserializer({"tokens": tokens, "label": np.arange(3, dtype=np.float32)})
    return sh.MinibatchSource(corpus, randomize=False, **options)


LAYOUTS = {
    sh.Ragged(): {"tokens": (10,), "tokens_offsets": (4,), "label": (3,)},
    sh.Padded(): {"tokens": (3, 4), "tokens_mask": (3, 4), "label": (3,)},
    sh.Packed(7): {
        "tokens": (2, 7), "tokens_mask": (2, 7), "label": (3,), "segment_ids": (2, 7),
        "position_ids": (2, 7),
    },
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_a_minibatch_becomes_a_dict_of_tensors(layout: sh.Layout) -> None:
    minibatch = make_source(layout=layout, num_lanes=1, max_sweeps=1).next_minibatch(14)
    for tensors in (minibatch.torch(), minibatch.to("cpu"), sh.torch.tensors_of(minibatch)):
        assert {name: tuple(one.shape) for name, one in tensors.items()} == LAYOUTS[layout]
    assert minibatch.torch()["label"].data_ptr() == minibatch["label"].values.ctypes.data


def test_tensors_go_to_the_device_that_the_minibatch_was_asked_for() -> None:
    minibatch = make_source().next_minibatch(10, device="meta")
    assert {one.device.type for one in minibatch.torch().values()} == {"meta"}
    assert {one.device.type for one in minibatch.torch("cpu").values()} == {"cpu"}
    moved = minibatch.torch("cpu").to(torch.device("meta"), non_blocking=True)
    assert isinstance(moved, sh.torch.Tensors)
    assert {one.device.type for one in moved.values()} == {"meta"}


@pytest.mark.parametrize("item", ["minibatch", "tensors"])
def test_it_is_made_anew_and_moved_as_loops_do(item: str) -> None:
    minibatch = make_source().next_minibatch(10)
    carried: Any = minibatch if item == "minibatch" else minibatch.torch()
    assert isinstance(carried, Mapping)
    # transformers: type(data)({...}); Lightning: type(data)(OrderedDict); torch: copy, update.
    made = [
        type(carried)({key: value for key, value in carried.items()}),  # noqa: C416
        type(carried)(OrderedDict(carried.items())),
        default_convert(carried),
        pickle.loads(pickle.dumps(carried)),
    ]
    for one in made:
        assert type(one) is type(carried)
        # accelerate and Lightning: whatever has `to`.
        assert torch.equal(one.to("cpu", non_blocking=True)["tokens"], torch.arange(10))


def test_a_pickled_minibatch_has_its_values_ids_and_places() -> None:
    source = make_source()
    source.next_minibatch(3)
    minibatch = source.next_minibatch(7)
    again = pickle.loads(pickle.dumps(minibatch))
    assert again.ids == minibatch.ids
    assert (again.nominal_time, again.end_of_sweep) == (3, True)
    assert again["tokens"].values.tolist() == minibatch["tokens"].values.tolist()
    assert again["label"].info.is_single
    assert repr(again) == repr(minibatch)


def test_it_goes_through_the_functions_of_accelerate() -> None:
    operations = pytest.importorskip("accelerate.utils.operations")
    for carried in (minibatch := make_source().next_minibatch(10), minibatch.torch()):
        moved = operations.send_to_device(carried, torch.device("meta"))
        assert {one.device.type for one in moved.values()} == {"meta"}
        assert operations.find_batch_size(moved) == 10
