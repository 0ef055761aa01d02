"""An index lies where no other reader of the folder takes it for data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.read.format_corpora import (
    ALL,
    OPEN_FILES,
    Make,
    arrow_files,
    corpus_for,
    ctf,
    jsonl,
    parquet,
    tfrecords,
    varied,
)

import sweephand as sh
from sweephand.cli import main
from sweephand.files.find import find_files
from sweephand.files.paths import bytes_at

INDEXED: dict[Make, tuple[str, Callable[..., Any]]] = {
    **{make: OPEN_FILES[make] for make in (ctf, jsonl, tfrecords, parquet)},
    arrow_files: ("*.arrow", partial(sh.ArrowDeserializer, streams=ALL)),
}

each_format = pytest.mark.parametrize("make", INDEXED, ids=lambda make: make.__name__)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def count(corpus: sh.Deserializer) -> int:
    with sh.MinibatchSource(corpus, num_threads=0) as source:
        return source.num_sequences_per_sweep


def open_it(make: Make, folder: Path, **options: Any) -> Any:
    pattern, deserializer = INDEXED[make]
    return deserializer(str(folder / pattern), **options)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


# -- where --
@each_format
def test_it_is_hidden_in_the_cache_or_nowhere(make: Make, data: Path, cache: Path) -> None:
    make(data, corpus_for(make))
    before = names_in(data)
    with pytest.raises(ValueError, match="index must be 'auto', 'cache' or None"):
        open_it(make, data, index="here")
    assert count(open_it(make, data, index=None)) == 40
    assert (names_in(data), names_in(cache)) == (before, [])
    for _ in range(2):
        assert count(open_it(make, data, index="cache")) == 40
        assert names_in(data) == before
        (kept,) = names_in(cache)
        assert kept.startswith(".")
    assert count(open_it(make, data)) == 40
    assert names_in(data) == before, "the one in the cache is as good"
    shutil.rmtree(cache)
    assert count(open_it(make, data)) == 40
    assert set(names_in(data)) - set(before) == {".sweephand"}
    (new,) = names_in(data / ".sweephand")
    assert new.endswith(".sweephand-index")
    assert names_in(cache) == []


# -- other readers --
@each_format
def test_our_own_folders_and_patterns_pass_it_over(make: Make, data: Path, cache: Path) -> None:
    make(data, corpus_for(make))
    size = bytes_at(data)
    assert count(open_it(make, data)) == 40
    assert bytes_at(data) == size
    kept = names_in(data)
    assert main(["info", str(data), "--json"]) == 0
    listed = find_files(str(data / "*")).files
    assert [file.name for file in listed] == [n for n in kept if not n.startswith(".")]


def test_a_hidden_folder_that_is_a_link_is_not_written_through(
    data: Path, cache: Path, tmp_path: Path
) -> None:
    jsonl(data, varied())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (data / ".sweephand").symlink_to(elsewhere)
    assert count(open_it(jsonl, data)) == 40
    assert names_in(elsewhere) == []
    assert len(names_in(cache)) == 1
