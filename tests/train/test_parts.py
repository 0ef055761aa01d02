"""Every part of a minibatch says what its sequences say as a minibatch of their own."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.minibatch.data import MinibatchData
from sweephand.train.trainer.sub_minibatches import split

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
LAYOUTS = [
    sh.Ragged(),
    sh.Frames(),
    sh.Padded(),
    sh.Padded(pad_value=-7, side="left"),
    sh.Padded(side="left", multiple_of=4),
    sh.Padded(side="right", multiple_of=4),
    sh.Bucketed([16]),
    sh.Bucketed([16], side="left"),
    sh.Packed(12, look_ahead=1),
    sh.Packed(12, look_ahead=1, cu_seqlens_capacity=30, pad_value=-7),
]
# What is said of the global minibatch, and the names that sequences have in their corpus.
OF_THE_WHOLE = {"nominal_time", "end_of_sweep", "sweeps_ended", "global_num_samples", "ids"}


def minibatch_of(layout: sh.Layout, lengths: list[int], first: int = 0) -> sh.Minibatch:
    """Return a minibatch of all sequences, with a stream of every kind.

    The samples of a corpus that begins at `first` are those of one that begins at 0.
    """
    sparse = pytest.importorskip("scipy.sparse")
    places = np.split(np.arange(first, first + sum(lengths)), np.cumsum(lengths)[:-1])
    eye = np.eye(7, dtype=np.float32)
    streams: dict[str, list[Any]] = {
        "tokens": [place + 1 for place in places],
        "vectors": [np.stack([place, place**2], 1).astype(np.float32) for place in places],
        "changed": [place.astype(np.float32) for place in places],
        "sparse": [sparse.csr_matrix(eye[place % 7]) for place in places],
        "bytes": [[str(one).encode() for one in place] for place in places],
        "labels": [place[:1] for place in places],
    }
    if isinstance(layout, sh.Frames | sh.Packed):  # which want equal lengths
        del streams["labels"]
    definitions = {name: sh.StreamDef() for name in streams}
    definitions["tokens"] = sh.StreamDef(defines_mb_size=True)
    definitions["changed"] = sh.StreamDef(transforms=[lambda values: values * 2])
    corpus = sh.ArrayDeserializer(streams, sh.StreamDefs(**definitions))
    source = sh.MinibatchSource(corpus, layout=layout, randomize=False, max_sweeps=1)
    return source.next_minibatch(10**4)


def said_by(one: object, names: set[str]) -> dict[str, Any]:
    """Return what every attribute, and every method that needs no argument, gives."""
    return {name: said(partial(getattr, one, name)) for name in sorted(names)}


def said(read: Callable[[], Any]) -> Any:
    try:
        found = read()
        found = found() if callable(found) else found
    except Exception as error:
        return type(error).__name__
    if isinstance(found, list):
        return [plain(one) for one in found]
    return plain(found)


def plain(found: Any) -> Any:
    found = found.toarray() if hasattr(found, "toarray") else found
    if isinstance(found, MinibatchData):
        return str(found)
    if not hasattr(found, "shape"):
        return found
    array = np.asarray(found)
    return array.shape, str(array.dtype), array.tolist()


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("num_parts", [2, 3, 40])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_part_is_the_minibatch_of_its_sequences(layout: sh.Layout, num_parts: int) -> None:
    pytest.importorskip("torch")
    whole = minibatch_of(layout, LENGTHS)
    lengths = [1] * sum(LENGTHS) if isinstance(layout, sh.Frames) else LENGTHS
    assert whole.num_sequences == len(lengths)
    parts = split(whole, num_parts)
    num_rows = len(whole.row_costs) if isinstance(layout, sh.Packed) else len(lengths)
    assert len(parts) == min(num_parts, num_rows)
    done = 0
    for part in parts:
        begin, done = done, done + part.num_sequences
        first = sum(lengths[:begin])
        alone = minibatch_of(layout, lengths[begin:done], first)
        assert part.ids == whole.ids[begin:done]
        names = public(sh.Minibatch) - OF_THE_WHOLE - {"get", "items", "keys", "values"}
        assert said_by(part, names) == said_by(alone, names)
        assert list(part) == list(alone)
        for key in part:
            names = public(MinibatchData) - {"end_of_sweep"}
            assert said_by(part[key], names) == said_by(alone[key], names), key
            for method in ("labels", "loss_mask"):
                mine, wanted = (
                    said(partial(getattr(one[key], method), shifted=False))
                    for one in (part, alone)
                )
                assert mine == wanted, (key, method)
            for pad_value in (3, 0):
                mine, wanted = (
                    said(partial(one[key].asarray, pad_value)) for one in (part, alone)
                )
                assert mine == wanted, key
            assert said(lambda k=key, p=part: np.asarray(p[k])) == said(
                lambda k=key, a=alone: np.asarray(a[k])
            )
            assert said(lambda k=key, p=part: np.from_dlpack(p[k])) == said(
                lambda k=key, a=alone: np.from_dlpack(a[k])
            )
    assert done == len(lengths)


@pytest.mark.parametrize("num_parts", [2, 3, 9])
def test_parts_of_split_sequences_are_rows_of_the_whole(num_parts: int) -> None:
    source = sh.MinibatchSource(
        sh.ArrayDeserializer({"tokens": [np.arange(1, n + 1) for n in (30, 5, 17, 2)]}),
        layout=sh.Packed(8, split_long="split"),
        max_sweeps=1,
    )
    whole = source.next_minibatch(1000)
    parts = split(whole, num_parts)
    for get in (
        lambda one: one["tokens"].asarray(),
        lambda one: one["tokens"].labels(),
        lambda one: one["tokens"].labels(shifted=False),
        lambda one: one["tokens"].starts,
        lambda one: one.row_costs,
    ):
        assert np.array_equal(np.concatenate([get(one) for one in parts]), get(whole))
    rows_before = 0
    boundaries = {0}
    for part in parts:
        data = part["tokens"]
        boundaries |= {int(b) + rows_before * 8 for b in data.dense_cu_seqlens}
        rows_before += data.asarray().shape[0]
    assert sorted(boundaries) == whole["tokens"].dense_cu_seqlens.tolist()


def test_a_part_without_the_stream_that_defines_the_size_knows_its_samples() -> None:
    corpus = sh.ArrayDeserializer(
        {"long": ([np.zeros(n) for n in LENGTHS]), "one": [np.zeros(1) for _ in LENGTHS]}
    )
    source = sh.MinibatchSource(corpus, randomize=False)
    whole = source.next_minibatch(30, input_map={"y": source.streams["one"]})
    assert sum(part.num_samples for part in split(whole, 3)) == whole.num_samples > 10


def test_parts_for_several_workers_are_as_many_as_wanted_and_the_last_ones_empty() -> None:
    parts = split(minibatch_of(sh.Ragged(), [2, 1]), 4, is_padded=True)
    assert [part.num_sequences for part in parts] == [1, 1, 0, 0]
