"""Lance datasets: versions, deleted rows, columns added later, damage, and what is refused."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import sweephand as sh
from sweephand.corpus import chunks
from sweephand.corpus.ledger import Ledger
from sweephand.ext.formats import lance as ours
from sweephand.files.source_file import FileList

lance = pytest.importorskip("lance")
pa = pytest.importorskip("pyarrow")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    return str(tmp_path / "train.lance")


def write(path: str, first: int, count: int, mode: str = "create", **options: Any) -> None:
    numbers = range(first, first + count)
    table = pa.table(
        {
            "tokens": pa.array([[n] * (n % 4 + 1) for n in numbers], pa.list_(pa.int32())),
            "box": pa.array([[n, n + 0.5] for n in numbers], pa.list_(pa.float32(), 2)),
            "label": list(numbers),
            "text": [f"é{n}" for n in numbers],
            "at": pa.array([{"x": n} for n in numbers]),
        }
    )
    lance.write_dataset(table, path, mode=mode, **options)


def labels(source: sh.MinibatchSource, size: int = 9) -> list[int]:
    return [one for batch in source.minibatches(size) for one in batch["label"].values.tolist()]


def in_order(corpus: sh.Deserializer, **options: Any) -> list[int]:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, **options) as source:
        return labels(source)


def test_columns_are_streams_as_of_parquet(path: str) -> None:
    write(path, 0, 7, max_rows_per_file=3)
    corpus = sh.open(path)
    assert isinstance(corpus, sh.LanceDeserializer)
    assert list(corpus.definitions) == ["tokens", "box", "label", "text", "at"]
    with sh.MinibatchSource(corpus, randomize=False) as source:
        minibatch = source.next_minibatch(6)
    assert [one.tolist() for one in minibatch["tokens"].as_sequences()] == [
        [0],
        [1, 1],
        [2] * 3,
    ]
    assert minibatch["box"].values.tolist() == [[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]]
    assert minibatch["text"].values.tolist() == ["é0".encode(), "é1".encode(), "é2".encode()]
    assert minibatch.ids == ["train.lance/0__0", "train.lance/0__1", "train.lance/0__2"]
    inner = sh.LanceDeserializer(path, {"x": sh.StreamDef(field="at.x")})
    with sh.MinibatchSource(inner, randomize=False) as source:
        assert source.next_minibatch(7)["x"].values.tolist() == list(range(7))


def test_rows_that_are_added_change_nothing_in_an_open_corpus(path: str) -> None:
    write(path, 0, 40, max_rows_per_file=15)
    corpus = sh.LanceDeserializer(path, ["tokens", "label"])
    options: dict[str, Any] = {"max_sweeps": 2, "randomization_seed": 4}
    with sh.MinibatchSource(corpus, **options) as source:
        whole = labels(source)
    write(path, 40, 20, mode="append")
    for again in (corpus, pickle.loads(pickle.dumps(corpus))):
        with sh.MinibatchSource(again, **options) as source:
            assert labels(source) == whole
    newest = sh.LanceDeserializer(path, ["tokens", "label"])
    assert (corpus.version, newest.version) == (1, 2)
    with sh.MinibatchSource(newest, **options) as source:
        assert sorted(labels(source)) == sorted([*range(60)] * 2)


def test_a_state_of_another_version_is_refused_and_names_it(path: str) -> None:
    write(path, 0, 40)
    with sh.MinibatchSource(sh.LanceDeserializer(path, ["label"])) as source:
        source.next_minibatch(7)
        state = source.get_checkpoint_state()
        rest = source.next_minibatch(7)["label"].values.tolist()
    write(path, 40, 1, mode="append")
    with (
        sh.MinibatchSource(sh.LanceDeserializer(path, ["label"])) as source,
        pytest.raises(sh.StateError, match=r"version 2.*version 1|version 1.*version 2"),
    ):
        source.restore_from_checkpoint(state)
    for version in (1, lance.dataset(path, version=1)):
        pinned = (
            sh.LanceDeserializer(path, ["label"], version=version)
            if version == 1
            else sh.LanceDeserializer(version, ["label"])
        )
        with sh.MinibatchSource(pinned) as source:
            source.restore_from_checkpoint(state)
            assert source.next_minibatch(7)["label"].values.tolist() == rest


def test_deleted_rows_and_columns_that_came_later_are_those_of_the_version(path: str) -> None:
    write(path, 0, 12, max_rows_per_file=5)
    before = sh.LanceDeserializer(path, ["label", "tokens"])
    assert in_order(before) == list(range(12))
    dataset = lance.dataset(path)
    dataset.delete("label in (1, 6, 7, 8, 9)")
    after = sh.LanceDeserializer(path, ["label", "tokens"])
    assert in_order(after) == [0, 2, 3, 4, 5, 10, 11]
    assert in_order(before) == list(range(12))
    lance.dataset(path).add_columns({"twice": "label * 2"})
    wider = sh.LanceDeserializer(path, {"label": sh.StreamDef(field="twice")})
    assert in_order(wider) == [0, 4, 6, 8, 10, 20, 22]
    lance.dataset(path).delete("label >= 0")
    with pytest.raises(sh.DataError, match=r"has no rows|the corpus is empty"):
        in_order(sh.LanceDeserializer(path, ["label"]))


def test_small_fragments_share_chunks_and_large_ones_have_several(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, 0, 1000, max_rows_per_file=500)
    monkeypatch.setattr(ours, "_UNIT_BYTES", 400)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2000)
    corpus = sh.LanceDeserializer(path, ["tokens", "label"], index=None)
    assert len(corpus.open(Ledger(0)).chunk_sequences) > 3
    with sh.MinibatchSource(corpus, max_sweeps=1) as source:
        assert sorted(labels(source)) == list(range(1000))


def test_nulls_are_damaged_items(path: str) -> None:
    table = pa.table({"tokens": [[1], None, [2, None], [3]], "label": [0, 1, 2, None]})
    lance.write_dataset(table, path)
    corpus = sh.LanceDeserializer(path, ["tokens", "label"])
    with pytest.raises(sh.DataError, match="is null") as caught:
        in_order(corpus)
    assert caught.value.sequence == 1
    assert in_order(corpus, max_errors=3) == [0]


def test_a_cut_data_file_is_an_error_with_its_place(path: str) -> None:
    write(path, 0, 12, max_rows_per_file=6)
    (data, *_) = lance.dataset(path).get_fragment(1).data_files()
    file = Path(path) / "data" / data.path
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(sh.DataError) as caught:
        in_order(sh.LanceDeserializer(path, ["tokens", "label"]))
    assert caught.value.file == str(file)
    assert "\n" not in str(caught.value)


def test_what_rust_panics_about_is_an_error_with_its_place(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        pass

    class Damaged:
        @property
        def schema(self) -> Any:
            raise PanicException("called `unwrap` on\n an `Err` value")

    write(path, 0, 3)
    files = FileList(sh.LanceDeserializer(path).files, [])
    monkeypatch.setattr(sh.LanceDeserializer, "_dataset", lambda self: Damaged())
    monkeypatch.setattr(sh.LanceDeserializer, "_list_fragments", lambda self: (files, {}, []))
    with pytest.raises(sh.DataError, match="the schema cannot be decoded: called") as caught:
        sh.LanceDeserializer(path)
    assert caught.value.file == path


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_forked_process_is_told_to_be_spawned(path: str) -> None:
    write(path, 0, 3)
    corpus = sh.LanceDeserializer(path, ["label"])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            in_order(corpus)
        except RuntimeError as error:
            code = 0 if "'spawn' or 'forkserver'" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
