"""What is no regular file is refused or passed over at once, whatever name it has."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.read.format_corpora import (
    OPEN,
    TOKENS,
    Make,
    corpus_for,
    ctf,
    ctf_in_store,
    jsonl,
    lance_dataset,
    parquet,
    tfrecords,
    zarr,
)

import sweephand as sh

# Not folders whose files are opened by the libraries of their formats.
FORMATS = [make for make in OPEN if make not in (ctf_in_store, lance_dataset, zarr)]
INDEXED = [ctf, jsonl, tfrecords, parquet]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        before = Path.cwd()
        os.chdir(path.parent)  # the name of a socket must be short
        bound.bind(path.name)
        os.chdir(before)


IRREGULAR = [fifo, device, folder, unix_socket]
each_kind = pytest.mark.parametrize("put", IRREGULAR, ids=lambda put: put.__name__)


@pytest.fixture(autouse=True)
def in_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Who waits for the writer of a pipe is let go, and the test fails."""
    done = threading.Event()
    pipes: list[Path] = []
    mkfifo = os.mkfifo

    def noted(path: Path) -> None:
        mkfifo(path)
        pipes.append(path)

    def release() -> None:
        if not done.wait(60):
            for pipe in pipes:
                os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))

    monkeypatch.setattr(os, "mkfifo", noted)
    watcher = threading.Thread(target=release)
    watcher.start()
    yield
    is_late = not watcher.is_alive()
    done.set()
    watcher.join()
    assert not is_late


def tokens(deserializer: sh.Deserializer) -> list[list[int]]:
    with sh.MinibatchSource(deserializer, randomize=False, max_sweeps=1) as source:
        return [
            one.reshape(-1).tolist()
            for batch in source.minibatches(50)
            for one in batch["tokens"].as_sequences()
        ]


@each_kind
@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_under_the_name_of_data_it_is_an_error(
    make: Make, put: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path, corpus_for(make))
    paths = sorted(path for path in tmp_path.iterdir() if not path.name.startswith("."))
    for path in paths:
        content = path.read_bytes()
        path.unlink()
        put(path)
        try:
            found = tokens(OPEN[make](tmp_path))
        except (sh.DataError, FileNotFoundError) as error:
            assert path.name.partition(".")[0] in str(error)  # noqa: PT017 - or a glob passes it
        else:
            assert put is folder
            assert len(found) < len(corpus_for(make).tokens)
        path.rmdir() if put is folder else path.unlink()
        path.write_bytes(content)


@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_under_the_name_of_data_that_was_opened_it_is_an_error(
    make: Make, tmp_path: Path
) -> None:
    make(tmp_path, corpus_for(make))
    for path in sorted(tmp_path.iterdir()):
        source = sh.MinibatchSource(
            OPEN[make](tmp_path), randomize=False, max_sweeps=1, num_threads=0
        )
        content = path.read_bytes()
        path.unlink()
        fifo(path)
        try:
            with source:
                assert sum(batch.num_sequences for batch in source.minibatches(50)) > 0
        except sh.DataError as error:
            assert path.name in str(error)  # noqa: PT017 - or it is held already
        path.unlink()
        path.write_bytes(content)


@each_kind
@pytest.mark.parametrize("make", INDEXED, ids=lambda make: make.__name__)
def test_under_the_name_of_an_index_it_is_replaced_or_passed_over(
    make: Make,
    put: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "data"
    data.mkdir()
    make(data, corpus_for(make))
    whole = tokens(OPEN[make](data))
    (index,) = data.glob(".sweephand/*.sweephand-index")
    index.unlink()
    put(index)
    assert tokens(OPEN[make](data)) == whole
    kept = list((tmp_path / "cache").glob("*")) if put is folder else [index]
    assert all(path.is_file() and not path.is_symlink() for path in kept)
    assert len(kept) == 1


@each_kind
def test_under_the_name_of_what_describes_a_folder_it_is_an_error(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    for name in ("dataset_info.json", "state.json"):
        place = tmp_path / name.partition(".")[0]
        place.mkdir()
        put(place / name)
        is_tfds = name == "dataset_info.json"
        with pytest.raises((sh.DataError, OSError), match=name):
            sh.tfds.load(place) if is_tfds else sh.ArrowDeserializer(place, TOKENS)


def dangling(path: Path) -> None:
    path.symlink_to("gone")


@pytest.mark.parametrize("put", [fifo, dangling])
@pytest.mark.parametrize("name", ["x.jsonl", "cat"])
def test_a_folder_that_holds_what_cannot_be_read_is_refused(
    put: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n')
    put(tmp_path / name)
    with pytest.raises((FileNotFoundError, sh.DataError), match=name) as caught:
        sh.open(tmp_path)
    assert ("a link to 'gone'" in str(caught.value)) == (put is dangling)
