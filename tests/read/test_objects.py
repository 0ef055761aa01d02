"""Nested values are Python objects: in every format, for maps, filters and callers."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh

ROWS: list[dict[str, Any]] = [
    {
        "messages": [
            {"role": "user", "content": f"a line\n“{n}” \\ 😀"},
            {"role": "assistant", "content": "x" * n, "calls": [{"f": n / 7, "big": 10**n}]},
        ][: 1 + n % 2],
        "n": n,
    }
    for n in range(30)
]


def in_jsonl(folder: Path, rows: list[dict[str, Any]]) -> Any:
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return sh.open(folder / "c.jsonl")


def in_parquet(folder: Path, rows: list[dict[str, Any]]) -> Any:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.Table.from_pylist(rows), folder / "c.parquet", row_group_size=7)
    return sh.open(folder / "c.parquet")


def in_arrow(folder: Path, rows: list[dict[str, Any]]) -> Any:
    return sh.ArrowDeserializer(pytest.importorskip("pyarrow").Table.from_pylist(rows))


def in_map(folder: Path, rows: list[dict[str, Any]]) -> Any:
    return sh.MapDeserializer(rows)


def in_webdataset(folder: Path, rows: list[dict[str, Any]]) -> Any:
    with tarfile.open(folder / "c.tar", "w") as archive:
        for number, row in enumerate(rows):
            content = json.dumps(row).encode()
            member = tarfile.TarInfo(f"{number:04}.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    streams = {
        "messages": sh.StreamDef(field="json.messages"),
        "n": sh.StreamDef(field="json.n"),
    }
    return sh.WebDatasetDeserializer(folder / "c.tar", streams)


FORMATS = [in_jsonl, in_parquet, in_arrow, in_map, in_webdataset]
Make = Callable[[Path, list[dict[str, Any]]], Any]


def delivered(corpus: Any, **options: Any) -> dict[int, Any]:
    with sh.MinibatchSource(corpus, max_sweeps=1, **options) as source:
        return {
            int(n): value
            for mb in source.minibatches(7)
            for n, value in zip(mb["n"].values, mb["messages"].values, strict=True)
        }


SMALL = [row for row in ROWS if row["n"] < 18]  # int64 holds what is in them


@pytest.mark.parametrize("make", FORMATS)
def test_objects_come_as_they_are(make: Make, tmp_path: Path) -> None:
    corpus = make(tmp_path, SMALL)
    wanted = {row["n"]: row["messages"] for row in SMALL}
    assert delivered(corpus) == wanted
    with sh.MinibatchSource(corpus) as source:
        info = source.streams.messages
        assert (info.is_object, info.is_single, info.dtype) == (True, True, np.dtype(object))
        assert "messages: objects" in repr(source.streams)
        minibatch = source.next_minibatch(3)
        assert "messages: objects (3,)" in repr(minibatch)
        again = pickle.loads(pickle.dumps(minibatch))
        assert again["messages"].values.tolist() == minibatch["messages"].values.tolist()
        pytest.importorskip("torch")
        with pytest.raises(TypeError, match="'messages' holds Python objects"):
            minibatch.torch()


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("threads", [0, 2])
def test_maps_and_filters_are_given_them(make: Make, threads: int, tmp_path: Path) -> None:
    def spell(sequence: dict[str, Any]) -> dict[str, Any]:
        text = "".join(one["content"] for one in sequence["messages"])
        return {"tokens": np.frombuffer(text.encode(), np.uint8), "n": sequence["n"]}

    def long(sequence: dict[str, Any]) -> bool:
        return len(sequence["messages"]) == 2

    corpus = make(tmp_path, SMALL).filter(long).map(spell, size="measured")
    with sh.MinibatchSource(corpus, max_sweeps=1, num_threads=threads) as source:
        found = {
            int(n): bytes(tokens)
            for mb in source.minibatches(100)
            for n, tokens in zip(mb["n"].values, mb["tokens"].as_sequences(), strict=True)
        }
    assert found == {
        row["n"]: "".join(one["content"] for one in row["messages"]).encode()
        for row in SMALL
        if len(row["messages"]) == 2
    }


def more(sequence: dict[str, Any]) -> dict[str, Any]:
    return {
        "messages": [*sequence["messages"], {"number": np.int64(3), "array": np.arange(2)}],
        "n": sequence["n"],
    }


def each(sequences: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {"messages": [one[:1] for one in sequences["messages"]], "n": sequences["n"]}


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_maps_may_return_objects(cache: bool, executor: Any, tmp_path: Path) -> None:
    corpus = in_jsonl(tmp_path, SMALL)
    extra = {"number": 3, "array": [0, 1]}
    for _ in range(2):
        mapped = corpus.map(more, cache=cache)
        found = delivered(mapped, num_map_workers=2, map_executor=executor)
        assert found == {row["n"]: [*row["messages"], extra] for row in SMALL}
    found = delivered(corpus.map(each, batched=True), map_executor=executor)
    assert found == {row["n"]: row["messages"][:1] for row in SMALL}


def test_integers_of_any_size_and_types_that_change_stay(tmp_path: Path) -> None:
    values: list[Any] = [{"a": 10**30}, "text", [1, "x", None], 7, None, [[1], [2, 3]], 0.1]
    lines = [json.dumps({"x": value, "n": n}) for n, value in enumerate(values)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, '{"n": 7}']))
    corpus = sh.open(tmp_path / "a.jsonl")  # the first lines show that there are objects
    streams = {"x": sh.StreamDef(dtype=object), "n": sh.StreamDef()}
    for one in (corpus, sh.JSONLDeserializer(tmp_path / "a.jsonl", streams)):
        with sh.MinibatchSource(one, randomize=False, max_sweeps=1) as source:
            assert source.next_minibatch(99)["x"].values.tolist() == [*values, None]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"x": {"a": 1, "a": 2}}', "'x' holds a member that is there twice"),
        ('{"x": {"a": 1e999}}', "'x' holds a number that is not finite"),
        ('{"x": {"a": "\\ud800"}}', "'x' holds text with half a surrogate pair"),
        ('{"x": {"a": NaN}}', "NaN is no number in JSON"),
        ('{"x": {"a": 1}', "no JSON object"),
    ],
)
def test_what_is_no_object_is_an_error_with_its_place(
    line: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"x": {{"a": 0}}}}\n{line}\n{{"x": {{"a": 2}}}}\n')
    corpus = sh.JSONLDeserializer(tmp_path / "a.jsonl", ["x"])
    with pytest.raises(sh.DataError, match=reason) as caught:
        sh.MinibatchSource(corpus)
    assert (caught.value.line, caught.value.file) == (2, str(tmp_path / "a.jsonl"))
    with sh.MinibatchSource(corpus, max_errors=1, randomize=False, max_sweeps=1) as source:
        assert source.next_minibatch(9)["x"].values.tolist() == [{"a": 0}, {"a": 2}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)  # fmt: skip


@given(st.lists(st.dictionaries(st.text(max_size=3), JSON), min_size=1, max_size=6))
def test_any_object_comes_back(values: list[dict[str, Any]]) -> None:
    corpus = sh.MapDeserializer([{"x": value} for value in values])
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, num_threads=0) as source:
        assert source.next_minibatch(9)["x"].values.tolist() == values
