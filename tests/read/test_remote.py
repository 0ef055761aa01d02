"""Objects of a store: ranged reads, retries with a limit, and changes that are noticed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.read import format_corpora as formats
from tests.read.format_corpora import corpus_for, ctf, jsonl, tfrecords, webdataset, zarr

import sweephand as sh
from sweephand.files import range_reader, remote

fsspec = pytest.importorskip("fsspec")

LOCAL = (formats.ctf_in_store, formats.array_records)
OPEN: dict[Any, Any] = {
    **{make: opened for make, opened in formats.OPEN.items() if make not in LOCAL},
    formats.htk_archives: formats.open_archives,
    zarr: lambda at: sh.ZarrDeserializer(
        [f"{at}/part-{number}.zarr" for number in range(3)], formats.ARRAY_STREAMS
    ),
}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A store in memory that says how its objects change; waiting takes no time."""
    monkeypatch.setattr(remote.time, "sleep", lambda _: None)
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    found = fsspec.filesystem("memory")
    if found.exists("/corpus"):  # of a page that was run in this process
        found.rm("/corpus", recursive=True)
    yield found
    found.rm("/corpus", recursive=True)


def upload(store: Any, make: Any, folder: Path) -> str:
    folder.mkdir()
    make(folder, corpus_for(make))
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".sweephand-index":
            store.pipe(f"/corpus/{path.relative_to(folder)}", path.read_bytes())
    return "memory://corpus"


def tokens(deserializer: sh.Deserializer, **options: Any) -> list[list[int]]:
    with sh.MinibatchSource(deserializer, randomize=False, max_sweeps=1, **options) as source:
        return [
            list(map(int, one.reshape(-1)))
            for batch in source.minibatches(20)
            for one in batch["tokens"].as_sequences()
        ]


@pytest.mark.parametrize(
    "make", [ctf, jsonl, tfrecords, webdataset], ids=lambda make: make.__name__
)
def test_an_index_of_objects_never_reads_them_twice(
    make: Any, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = upload(store, make, tmp_path / "data")
    fetched: list[int] = []
    cat = type(store).cat_file

    def watched(self: Any, path: str, start: int = 0, end: int = 0, **more: Any) -> bytes:
        fetched.append(end - start)
        return cat(self, path, start=start, end=end, **more)  # type: ignore[no-any-return]

    monkeypatch.setattr(type(store), "cat_file", watched)
    sh.MinibatchSource(OPEN[make](url)).close()
    size = sum(store.size(path) for path in store.ls("/corpus", detail=False))
    assert size <= sum(fetched) <= size + 400
    fetched.clear()
    source = sh.MinibatchSource(OPEN[make](url), num_threads=0)
    assert fetched == []
    source.next_minibatch(1)
    assert len(fetched) <= 3  # one request for each file that the chunk has a part of


@pytest.mark.parametrize("make", [ctf, jsonl, tfrecords], ids=lambda make: make.__name__)
def test_an_index_fetches_what_follows_ahead(
    make: Any, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = upload(store, make, tmp_path / "data")
    monkeypatch.setattr(range_reader, "_SCAN_BLOCK", 100)
    asked: list[tuple[str, int]] = []
    second = threading.Event()
    cat = type(store).cat_file

    def watched(self: Any, path: str, start: int = 0, end: int = 0, **more: Any) -> bytes:
        if end - start == 100 and path.endswith(("-0.ctf", "-0.jsonl", "-0.tfrecord")):
            asked.append((path, start))
            if start == 0:
                assert second.wait(60)
            else:
                second.set()
        return cat(self, path, start=start, end=end, **more)  # type: ignore[no-any-return]

    monkeypatch.setattr(type(store), "cat_file", watched)
    sh.MinibatchSource(OPEN[make](url)).close()
    assert len(set(asked)) == len(asked) >= 4


@pytest.mark.parametrize("fails", [3, 100])
def test_a_store_that_fails_is_asked_again_up_to_a_limit(
    fails: int, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = upload(store, jsonl, tmp_path / "data")
    left = [fails]
    cat = type(store).cat_file

    def flaky(self: Any, path: str, **more: Any) -> bytes:
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionResetError("the peer went away")
        return cat(self, path, **more)  # type: ignore[no-any-return]

    monkeypatch.setattr(type(store), "cat_file", flaky)
    if fails == 3:
        assert len(tokens(OPEN[jsonl](url))) == 40
    else:
        with pytest.raises(
            OSError, match="6 attempts failed, the last by ConnectionResetError"
        ):
            tokens(OPEN[jsonl](url))


def test_an_object_that_was_replaced_stops_the_run(store: Any, tmp_path: Path) -> None:
    url = upload(store, jsonl, tmp_path / "data")
    with sh.MinibatchSource(OPEN[jsonl](url), num_threads=0) as source:
        store.pipe("/corpus/part-0.jsonl", store.cat("/corpus/part-0.jsonl"))
        with pytest.raises(sh.StaleError, match=r"part-0\.jsonl.*replaced"):
            source.next_minibatch(1000)


def test_an_absent_object_is_told_at_once(store: Any, tmp_path: Path) -> None:
    upload(store, jsonl, tmp_path / "data")
    for url in ("memory://corpus/none.jsonl", "memory://corpus/*.none"):
        with pytest.raises(FileNotFoundError):
            sh.JSONLDeserializer(url, formats.ALL)
