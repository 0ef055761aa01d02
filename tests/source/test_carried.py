"""A minibatch in another process is the same: by value, with its ids."""

import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from torch.utils.data._utils.collate import default_convert

import sweephand as sh

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6]
LAYOUTS = [
    sh.Ragged(),
    sh.Padded(pad_value=-1, side="left"),
    sh.Packed(12),
    sh.Bucketed([4, 9]),
    sh.TruncatedBPTT(4),
    sh.Frames(),
]


def corpus() -> sh.ArrayDeserializer:
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    values = np.arange(offsets[-1])
    return sh.ArrayDeserializer(
        {"x": (np.stack([values, -values], axis=1), offsets), "y": (values, offsets)},
        sh.StreamDefs(x=sh.StreamDef(dtype="float32"), y=sh.StreamDef(dtype="int32")),
    )


def check_same(found: sh.Minibatch, wanted: sh.Minibatch) -> None:
    assert isinstance(found, sh.Minibatch)
    assert repr(found) == repr(wanted)
    assert found.ids == wanted.ids
    for name in ("end_of_sweep", "sweeps_ended", "global_num_samples", "bucket_key"):
        assert getattr(found, name) == getattr(wanted, name)
    for name in ("fill_ratio", "provide_data", "provide_label"):
        assert getattr(found, name) == getattr(wanted, name)
    for name, data in wanted.items():
        assert found[name].info == data.info
        for wish in ("offsets", "lengths", "mask"):
            assert np.array_equal(getattr(found[name], wish), getattr(data, wish))
        assert np.array_equal(found[name].asarray(), data.asarray())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_minibatch_pickles_by_value(layout: sh.Layout, rank: int) -> None:
    source = sh.MinibatchSource(corpus(), layout=layout, max_sweeps=1)
    for wanted in source.minibatches(12, num_data_partitions=2, partition_index=rank):
        once = pickle.loads(pickle.dumps(wanted))
        for found in (once, pickle.loads(pickle.dumps(once))):
            check_same(found, wanted)
            assert np.array_equal(found["y"].labels(), wanted["y"].labels())
            if layout.has_rows:
                assert np.array_equal(found.starts, wanted.starts)
            if isinstance(layout, sh.Packed):
                assert np.array_equal(found.segment_ids, wanted.segment_ids)
                assert np.array_equal(found.position_ids, wanted.position_ids)
            data = pickle.loads(pickle.dumps(wanted["x"]))
            assert np.array_equal(data.asarray(), wanted["x"].asarray())


def test_sparse_samples_and_bytes_pickle() -> None:
    matrix = scipy.sparse.random(6, 5, density=0.4, format="csr", random_state=1)
    texts = [b"a", b"", b"bcd", b"e", b"ff", b"g"]
    data = sh.ArrayDeserializer({"sparse": matrix, "text": np.array(texts, object)})
    wanted = sh.MinibatchSource(data, randomize=False).next_minibatch(6)
    found = pickle.loads(pickle.dumps(wanted))
    assert found.ids == wanted.ids
    assert (found["sparse"].values != wanted["sparse"].values).nnz == 0
    assert found["text"].values.tolist() == texts


def test_whoever_makes_the_mapping_anew_gets_the_same_minibatch() -> None:
    wanted = sh.MinibatchSource(corpus()).next_minibatch(12)
    check_same(default_convert(wanted), wanted)
    check_same(sh.Minibatch(OrderedDict(wanted.items())), wanted)  # as Lightning does
    other = sh.MinibatchSource(corpus()).next_minibatch(4)
    wrong: Any
    for wrong in ({}, {"x": 1}, {"x": wanted["x"], "y": other["y"]}, 7):
        with pytest.raises(TypeError, match="a minibatch comes from a source"):
            sh.Minibatch(wrong)
