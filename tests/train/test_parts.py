"""Every part of a minibatch says what its sequences say as a minibatch of their own."""

import pickle
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.minibatch.minibatch_data import MinibatchData
from sweephand.train.trainer.trainer import split

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
OF_THE_WHOLE = {
    *("nominal_time", "position", "next_position", "end_of_sweep", "sweeps_ended"),
    *("global_num_samples", "global_num_sequences", "global_num_label_samples", "ids"),
    "global_label_weight",
    *("origin", "planned"),  # objects without equality
}


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
        "weights": [place[:1] for place in places],
        "labels": [place[:1] for place in places],
    }
    if isinstance(layout, sh.Frames | sh.Packed):  # which want equal lengths
        del streams["labels"]
    if isinstance(layout, sh.Frames):
        del streams["weights"]
    definitions = {name: sh.StreamDef() for name in streams}
    definitions["tokens"] = sh.StreamDef(defines_mb_size=True)
    if "weights" in streams:
        definitions["weights"] = sh.StreamDef(broadcast=True)
    definitions["changed"] = sh.StreamDef(transforms=[twice])
    corpus = sh.ArrayDeserializer(streams, sh.StreamDefs(**definitions))
    source = sh.MinibatchSource(corpus, layout=layout, randomize=False, max_sweeps=1)
    return source.next_minibatch(10**4)


def twice(values: np.ndarray) -> np.ndarray:
    return values * 2


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
    num_rows = whole.num_rows if isinstance(layout, sh.Packed) else len(lengths)
    assert len(parts) == min(num_parts, num_rows)
    done = 0
    for part in parts:
        begin, done = done, done + part.num_sequences
        if lengths[begin:done] == [1] and not isinstance(layout, sh.Frames):
            continue  # of a corpus of one sample every stream is single: it has another shape
        first = sum(lengths[:begin])
        alone = minibatch_of(layout, lengths[begin:done], first)
        assert part.ids == whole.ids[begin:done]
        names = public(sh.Minibatch) - OF_THE_WHOLE - {"get", "items", "keys", "values", "show"}
        assert said_by(part, names) == said_by(alone, names)
        assert list(part) == list(alone)
        for key in part:
            names = public(MinibatchData) - {
                "end_of_sweep",
                "global_num_samples",
                "global_num_labels",
            }
            assert said_by(part[key], names) == said_by(alone[key], names), key
            for call in (
                lambda data: data.labels(shifted=False),
                lambda data: data.loss_mask(shifted=False),
                lambda data: data.asarray(3),
                np.asarray,
                np.from_dlpack,
            ):
                assert said(partial(call, part[key])) == said(partial(call, alone[key])), key
    assert done == len(lengths)


def whole_of_pieces(layout: sh.Layout) -> sh.Minibatch:
    """Return a minibatch whose rows begin with sequences that go on, or end with such."""
    lengths = [30, 5, 17, 2, 9]
    ends = np.cumsum(lengths)
    streams = {
        "tokens": (np.arange(1, ends[-1] + 1), np.append(0, ends)),
        "changed": (np.arange(ends[-1]), np.append(0, ends)),
        "weights": np.arange(len(lengths)),
    }
    definitions = sh.StreamDefs(
        tokens=sh.StreamDef(defines_mb_size=True),
        changed=sh.StreamDef(transforms=[twice]),
        weights=sh.StreamDef(broadcast=True),
    )
    source = sh.MinibatchSource(
        sh.ArrayDeserializer(streams, definitions), layout=layout, max_sweeps=1
    )
    whole = source.next_minibatch(24)
    if isinstance(layout, sh.TruncatedBPTT):
        return source.next_minibatch(24)
    assert whole.num_rows == 3
    return whole


@pytest.mark.parametrize("borders", [(0, 1, 3), (0, 2, 2, 3), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize(
    "layout",
    [sh.Packed(8, split_long="split"), sh.Packed(8, "split", 7, 2), sh.TruncatedBPTT(8)],
    ids=str,
)
def test_a_part_of_rows_says_what_the_whole_says_of_them(
    layout: sh.Layout, borders: tuple[int, ...]
) -> None:
    whole = whole_of_pieces(layout)
    rows = [slice(begin, end) for begin, end in pairwise(borders)]
    parts = [whole.rows(one.start, one.stop) for one in rows]
    row_of_piece = whole._plan.cells().reshape(-1, 4)[:, 0]
    own = [slice(*np.searchsorted(row_of_piece, [one.start, one.stop])) for one in rows]
    for part, row, sequences in zip(parts, rows, own, strict=True):
        assert part.ids == whole.ids[sequences]
        assert part.starts.tolist() == whole.starts[sequences].tolist()
        for name in ("nominal_time", "sweeps_ended", "end_of_sweep", "global_num_samples"):
            assert getattr(part, name) == getattr(whole, name)
        assert part.num_samples == (part["tokens"].mask > 0).sum()
        cells = part["tokens"].mask.size
        assert part.fill_ratio == (part.num_samples / cells if cells else 1.0)
        if isinstance(layout, sh.Packed):
            assert np.array_equal(part.segment_ids, whole.segment_ids[row])
            assert np.array_equal(part.position_ids, whole.position_ids[row])
        for key, data in whole.items():
            mine = part[key]
            samples = slice(*data.offsets[[sequences.start, sequences.stop]])
            assert mine.num_samples == samples.stop - samples.start
            assert mine.lengths.tolist() == data.lengths[sequences].tolist()
            assert mine.max_seqlen == data.lengths[sequences].max(initial=0)
            assert mine.values.tolist() == data.values[samples].tolist()
            for get in (
                lambda one: one.asarray(),
                lambda one: one.asarray(3, np.float64),
                lambda one: one.mask,
                lambda one: one.labels(),
                lambda one: one.labels(-1, shifted=False),
                lambda one: one.loss_mask(),
                lambda one: one.loss_mask(shifted=False),
            ):
                assert np.array_equal(get(mine), get(data)[row])
            assert mine.dense_shape == mine.asarray().shape
    boundaries = {
        int(boundary) + row.start * 8
        for part, row in zip(parts, rows, strict=True)
        for boundary in part["tokens"].dense_cu_seqlens
    }
    assert sorted(boundaries) == np.unique(whole["tokens"].dense_cu_seqlens).tolist()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_part_shares_memory_pickles_and_can_be_cut_again(layout: sh.Layout) -> None:
    whole = minibatch_of(layout, LENGTHS)
    part = whole.rows(1, 3)
    again, second = pickle.loads(pickle.dumps(part)), part.rows(1, 2)
    assert again.ids == part.ids
    for key in ("tokens", "vectors"):
        data, kept = whole[key], part[key]
        dense = data.asarray(), kept.asarray()
        assert np.shares_memory(*(dense if data.is_padded else (data.values, kept.values)))
        names = {"asarray", "mask", "offsets", "labels"}
        assert said_by(again[key], names) == said_by(kept, names)
        wanted = said_by(whole.rows(2, 3)[key], public(MinibatchData))
        assert said_by(second[key], public(MinibatchData)) == wanted


def test_a_part_lies_within_the_whole() -> None:
    whole = minibatch_of(sh.Ragged(), [2, 1])
    for begin, end in ((0, 3), (2, 1), (3, 3)):
        with pytest.raises(IndexError, match="a part must be some of the 2 rows"):
            whole.rows(begin, end)


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
