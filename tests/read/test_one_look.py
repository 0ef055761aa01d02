"""To know the format of what lies in a store takes one look at it, whatever it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.read.format_corpora import (
    ALL,
    OPEN_FILES,
    TOKENS,
    Make,
    corpus_for,
    csv_rows,
    ctf,
    ctf_in_gzip,
    ctf_in_zstd,
    datatrove,
    hdf5,
    jsonl,
    jsonl_in_gzip,
    jsonl_in_zstd,
    mds,
    megatron,
    mlf,
    npy,
    parquet,
    text_lines,
    tfrecords,
    tfrecords_in_gzip,
    webdataset,
)
from tests.read.http_store import CLIENTS, serve_to

import sweephand as sh
from sweephand import _core
from sweephand.files.local import LocalFile


def _class_of(make: Make) -> tuple[Any, Any]:
    opener: Any = OPEN_FILES[make][1]
    return opener.func, opener.keywords["streams"]


NAMED = (parquet, csv_rows, jsonl, text_lines, tfrecords, tfrecords_in_gzip, ctf, webdataset)
NAMED += (hdf5, megatron, jsonl_in_gzip, jsonl_in_zstd, ctf_in_gzip, ctf_in_zstd)
CLASSES: dict[Make, tuple[str, Any, Any]] = {
    **{make: (OPEN_FILES[make][0], *_class_of(make)) for make in NAMED},
    npy: ("tokens.npy", sh.NpyDeserializer, TOKENS),
    mds: ("index.json", sh.MDSDeserializer, ALL),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("make", CLASSES)
def test_a_web_server_is_asked_twice_more_than_by_the_class(
    make: Make, client: str, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    make(tmp_path / "data", corpus_for(make))
    pattern, opened, streams = CLASSES[make]
    name = sorted(path.name for path in (tmp_path / "data").glob(pattern))[-1]
    with serve_to(client, tmp_path / "data") as store:
        url = f"{store.url}/{name}"
        opened(url, streams)
        by_class = len(store.asked)
        sh.open(url, streams)
        by_open = store.asked[by_class:]
    assert len(by_open) <= by_class + 2, by_open
    absent = {path for _, path in by_open if not (tmp_path / "data" / path[1:]).exists()}
    assert absent <= {"/tokens_offsets.npy"}  # nothing else is looked for


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """What a store in memory, which makes lists, is asked for."""
    fsspec = pytest.importorskip("fsspec")
    kind = type(fsspec.filesystem("memory"))
    seen: list[tuple[str, str]] = []
    for name in ("info", "ls", "cat_file"):
        plain = getattr(kind, name)

        def counted(
            self: Any,
            path: str,
            *args: Any,
            name: str = name,
            plain: Any = plain,
            **options: Any,
        ) -> Any:
            seen.append((name, path))
            return plain(self, path, *args, **options)

        monkeypatch.setattr(kind, name, counted)
    yield seen
    fsspec.filesystem("memory").rm("/one-look", recursive=True)


@pytest.mark.parametrize("make", NAMED)
def test_a_local_file_is_read_once_to_know_what_it_holds_and_to_open_it(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, corpus_for(make))
    path = sorted(tmp_path.glob(CLASSES[make][0]))[-1]
    for one in tmp_path.iterdir():
        os.utime(one, (1e9, 1e9))  # what was written just now is never taken from memory
    asked: list[str] = []

    def count(owner: Any, name: str) -> None:
        plain = getattr(owner, name)

        def counted(first: Any, *args: Any, **options: Any) -> Any:
            named = bytes(first) if hasattr(first, "dtype") else str(first).encode()
            if os.fsencode(path) in named:
                asked.append(name)
            return plain(first, *args, **options)

        monkeypatch.setattr(owner, name, counted)

    count(os, "stat")
    count(_core.read, "look_at_all")
    count(LocalFile, "opened")
    sh.open(path, index=None)
    has_end = make in (parquet, hdf5)  # which says what is in the file
    assert asked.count("stat") + asked.count("look_at_all") <= 2 + has_end, asked
    assert asked.count("opened") <= (6 if has_end else 1), asked


def test_the_index_of_lines_takes_a_request_a_file(asked: list[tuple[str, str]]) -> None:
    store = pytest.importorskip("fsspec").filesystem("memory")
    for number in range(4):
        store.pipe(f"/one-look/{number}.jsonl", b'{"x": 1}\n' * 20_000)
    corpus = sh.JSONLDeserializer("memory://one-look/*.jsonl", sh.StreamDefs(x=sh.StreamDef()))
    asked.clear()
    sh.MinibatchSource(corpus).close()
    assert sum(name == "cat_file" for name, _ in asked) == 4, asked


FOLDERS: list[Make] = [
    *(parquet, jsonl, jsonl_in_gzip, tfrecords, ctf, webdataset, hdf5, megatron),
    *(csv_rows, text_lines, mlf, datatrove, mds),
]


@pytest.mark.parametrize("make", FOLDERS)
def test_a_folder_is_listed_once_to_know_what_it_holds(
    make: Make, tmp_path: Path, asked: list[tuple[str, str]]
) -> None:
    from sweephand.deserializers.open_path import look_at

    make(tmp_path, corpus_for(make))
    store = pytest.importorskip("fsspec").filesystem("memory")
    for path in tmp_path.iterdir():
        if path.is_file():
            store.pipe(f"/one-look/{path.name}", path.read_bytes())
    asked.clear()
    found = look_at("memory://one-look")
    assert found.paths
    assert asked.count(("ls", "/one-look")) <= 1
    kinds = {path.suffix for path in tmp_path.iterdir() if path.is_file()}
    # The folder, its list, and a look into the first file of each kind, which may be packed.
    assert len(asked) <= 2 + 2 * len(kinds), asked
