"""One sample per sequence, a label for instance: (sequences, ...) in every layout."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.typing import NDArray

import sweephand as sh

LENGTHS = [3, 1, 4, 2, 6, 5, 1, 2]
LAYOUTS = [
    sh.Ragged(),
    sh.Padded(multiple_of=4, side="left"),
    sh.Packed(8),
    sh.Packed(4, split_long="split"),
    sh.Bucketed([2, 6]),
    sh.TruncatedBPTT(3),
]


def make_source(layout: sh.Layout, **options: Any) -> sh.MinibatchSource:
    count = len(LENGTHS)
    streams = {
        "tokens": (np.arange(sum(LENGTHS)), np.cumsum([0, *LENGTHS])),
        "label": np.arange(count, dtype=np.float32),
        "box": np.arange(4 * count).reshape(count, 2, 2),
        "words": scipy.sparse.csr_matrix(np.eye(count, 9)),
        "owner": np.arange(count),
    }
    if layout.has_rows:
        del streams["words"]  # rows hold no sparse streams beside others
    definitions = {name: sh.StreamDef(broadcast=name == "owner") for name in streams}
    corpus = sh.ArrayDeserializer(streams, sh.StreamDefs(**definitions))
    return sh.MinibatchSource(corpus, layout=layout, max_sweeps=1, **options)


def numbers(minibatch: sh.Minibatch) -> NDArray[np.int64]:
    return np.array([int(name.split("__")[1]) for name in minibatch.ids], np.int64)


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_it_has_an_axis_of_sequences_alone_whatever_asks_for_it(layout: sh.Layout) -> None:
    for minibatch in make_source(layout).minibatches(8):
        count = minibatch.num_sequences
        for name in set(minibatch) - {"tokens", "owner"}:
            data = minibatch[name]
            wanted = (count, *data.info.shape)
            assert data.info.is_single
            assert data.asarray().shape == np.asarray(data).shape == data.dense_shape == wanted
            assert data.shape == (count, min(count, 1), *data.info.shape)  # CNTK's
            assert data.mask.tolist() == [2] * count
            if not data.is_sparse:
                assert data.values.shape == tuple(data.torch().shape) == wanted
                assert tuple(torch.from_dlpack(data).shape) == wanted
        assert minibatch["label"].values.tolist() == numbers(minibatch).tolist()
        assert len(minibatch["label"].as_sequences()) == count
        assert np.array_equal(pickle.loads(pickle.dumps(minibatch))["box"], minibatch["box"])


@pytest.mark.parametrize("layout", LAYOUTS[2:], ids=repr)
def test_broadcast_comes_per_token_instead(layout: sh.Layout) -> None:
    for minibatch in make_source(layout).minibatches(8):
        tokens, owner = minibatch["tokens"], minibatch["owner"]
        assert not owner.info.is_single
        assert owner.asarray().shape == tokens.asarray().shape
        starts = np.repeat(numbers(minibatch), tokens.lengths)
        assert owner.values.tolist() == starts.tolist()


@pytest.mark.parametrize("num_lanes", [1, 48])
def test_a_minibatch_of_short_sequences_changes_no_rank(num_lanes: int) -> None:
    source = make_source(sh.Padded(), num_lanes=num_lanes)
    widths = [minibatch["tokens"].asarray().shape for minibatch in source.minibatches(1)]
    assert {len(shape) for shape in widths} == {2}
    assert (1, 1) in widths


class Labelled(sh.UserDeserializer):
    def __init__(self, last: Any) -> None:
        self.last = last

    def stream_infos(self) -> sh.StreamDefs:
        x = sh.StreamDef(defines_mb_size=True)
        return sh.StreamDefs(x=x, label=sh.StreamDef())

    def num_chunks(self) -> int:
        return 2

    def get_chunk(self, chunk_id: int) -> dict[str, Any]:
        x = [np.arange(3), np.arange(2)]
        return {"x": x, "label": self.last if chunk_id else np.arange(2)}


def write_jsonl(folder: Path, labels: list[Any]) -> sh.Deserializer:
    lines = [json.dumps({"x": [1] * (n + 1), "label": one}) for n, one in enumerate(labels)]
    (folder / "a.jsonl").write_text("\n".join(lines))
    streams = sh.StreamDefs(x=sh.StreamDef(), label=sh.StreamDef())
    return sh.JSONLDeserializer(folder / "a.jsonl", streams)


def write_ctf(folder: Path, labels: list[Any]) -> sh.Deserializer:
    lines = []
    for n, one in enumerate(labels):
        several = one if isinstance(one, list) else [one]
        for place in range(max(n + 1, len(several))):
            label = f" |L {several[place]}" if place < len(several) else ""
            lines.append(f"{n} |X {place}{label}\n")
    (folder / "a.ctf").write_text("".join(lines))
    streams = sh.StreamDefs(
        x=sh.StreamDef(field="X", shape=1), label=sh.StreamDef(field="L", shape=1)
    )
    return sh.CTFDeserializer(folder / "a.ctf", streams)


def write_parquet(folder: Path, labels: list[Any]) -> sh.Deserializer:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if any(isinstance(one, list) for one in labels):
        labels = [one if isinstance(one, list) else [one] for one in labels]
    x = [[1] * (n + 1) for n in range(len(labels))]
    pq.write_table(pa.table({"x": x, "label": labels}), folder / "a.parquet")
    streams = sh.StreamDefs(x=sh.StreamDef(), label=sh.StreamDef())
    return sh.ParquetDeserializer(folder / "a.parquet", streams)


def make_map(folder: Path, labels: list[Any]) -> sh.Deserializer:
    items = [{"x": np.arange(n + 1), "label": one} for n, one in enumerate(labels)]
    return sh.MapDeserializer(items, sh.StreamDefs(x=sh.StreamDef(), label=sh.StreamDef()))


FORMATS = [write_jsonl, write_ctf, write_parquet, make_map]


@pytest.mark.parametrize("make", FORMATS)
def test_every_format_says_whether_a_stream_is_single(
    make: Callable[[Path, list[Any]], sh.Deserializer], tmp_path: Path
) -> None:
    for again in range(2):  # with the index of before
        labels = make(tmp_path, [5, 6, 7])
        source = sh.MinibatchSource(labels, layout=sh.Padded(), randomize=False)
        assert [source[name].is_single for name in ("x", "label")] == [False, True], again
        label = source.next_minibatch(6)["label"]
        assert label.asarray().reshape(3).tolist() == [5, 6, 7]
        assert label.asarray().ndim == 1 + len(label.info.shape)


@pytest.mark.parametrize("make", FORMATS)
def test_one_sequence_with_two_samples_makes_it_none(
    make: Callable[[Path, list[Any]], sh.Deserializer], tmp_path: Path
) -> None:
    labels = make(tmp_path, [[5, 5], 6, 7])
    source = sh.MinibatchSource(labels, layout=sh.Padded(), randomize=False)
    assert not source["label"].is_single
    assert source.next_minibatch(2)["label"].asarray().ndim >= 2


def test_a_chunk_that_does_not_keep_to_it_is_an_error_that_names_the_sequence() -> None:
    source = sh.MinibatchSource(Labelled(np.arange(2)), randomize=False)
    assert source["label"].is_single
    source = sh.MinibatchSource(Labelled([np.arange(1), np.arange(2)]), randomize=False)
    source.next_minibatch(5)
    with pytest.raises(sh.DataError, match="one sample per sequence, here are 2") as error:
        source.next_minibatch(5)
    assert (error.value.stream, error.value.sequence) == ("label", "Labelled__3")
