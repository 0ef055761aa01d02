"""Minibatches and their streams are objects of C: what Python can tell of that."""

import copy
import gc
import pickle
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import sweephand as sh

TOKENS = [np.arange(3), np.arange(2), np.arange(4)]


def make_source(layout: sh.Layout | None = None) -> sh.MinibatchSource:
    corpus = sh.ArrayDeserializer({"tokens": TOKENS, "label": np.arange(3)})
    return sh.MinibatchSource(corpus, randomize=False, layout=layout or sh.Ragged())


@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded(), sh.Packed(9)], ids=repr)
def test_arrays_are_made_once(layout: sh.Layout) -> None:
    minibatch = make_source(layout).next_minibatch(9)
    for key in minibatch:
        data = minibatch[key]
        assert minibatch[key] is data
        before = data.values, data.offsets, data.mask
        assert data.max_seqlen > 0  # for which something is kept beside them
        after = data.values, data.offsets, data.mask
        assert all(one is other for one, other in zip(before, after, strict=True))


def test_an_attribute_that_is_set_is_the_one_that_is_found() -> None:
    data = make_source().next_minibatch(9)["tokens"]
    assert len(data.values) == 9
    data.values = np.zeros(1)
    assert len(data.values) == 1
    with pytest.raises(AttributeError):
        data.num_samples = 1  # type: ignore[misc]


def test_what_only_a_circle_holds_is_collected() -> None:
    class Device:
        minibatch: Any

    device = Device()
    device.minibatch = make_source().next_minibatch(9, device=device)
    tokens = device.minibatch["tokens"]
    tokens.around = tokens
    assert device.minibatch.planned
    there = weakref.ref(device), weakref.ref(tokens)
    del device, tokens
    gc.collect()
    assert [one() for one in there] == [None, None]


def test_nothing_is_left_of_minibatches_that_are_dropped() -> None:
    source = make_source()

    def count() -> list[int]:
        gc.collect()
        kinds = type(source.next_minibatch(9)), sh.MinibatchData, source.timeline.contents
        return [sys.getrefcount(kind) for kind in kinds]

    def use() -> None:
        minibatch = source.next_minibatch(9)
        tokens = minibatch["tokens"]
        copies = [pickle.loads(pickle.dumps(minibatch)), copy.copy(minibatch)]
        arrays = tokens.values, tokens.offsets, tokens.mask, tokens.asarray(), tokens.lengths
        del minibatch, tokens, copies, arrays
        assert not hasattr(source.next_minibatch(9), "cuda")

    use()
    before = count()
    for _ in range(100):
        use()
    assert count() == before


def test_collections_may_come_at_any_time() -> None:
    source, threshold = make_source(sh.Packed(9)), gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(20):
            minibatch = source.next_minibatch(9)
            data = [minibatch[key].values for key in minibatch], minibatch.segment_ids
            assert len(data) == 2
            assert pickle.loads(pickle.dumps(minibatch)).ids == minibatch.ids
    finally:
        gc.set_threshold(*threshold)


@pytest.mark.parametrize("wrong", [(), (1,), (1, 2, 3), (None, None, None, None)])
def test_what_a_minibatch_is_not_made_of_is_refused(wrong: tuple[Any, ...]) -> None:
    for kind in (sh.Minibatch, sh.MinibatchData):
        with pytest.raises((TypeError, AttributeError, RuntimeError, ValueError)):
            kind(*wrong)


def test_a_minibatch_without_its_class_is_refused() -> None:
    source = make_source()
    engine = source.cursor._engine
    request = source.cursor.request(9)
    with pytest.raises(TypeError, match="ServedBatch"):
        engine.serve(request, dict, source.timeline.contents, None)
