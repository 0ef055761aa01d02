"""Shards without rows among others, in every format, and corpora of nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.read.format_corpora import (
    ALL,
    OPEN,
    Corpus,
    Make,
    arrow_files,
    corpus_for,
    ctf_in_store,
    htk,
    mds,
    mds_in_zstd,
    npy,
    raw_tokens,
    text_in_gzip,
    zarr,
)

import sweephand as sh

Write = Callable[[Path], None]

OTHERS = (npy, mds, mds_in_zstd, htk)
"""Formats with the files of a list."""

UNKNOWN = (raw_tokens, text_in_gzip, ctf_in_store)
"""Formats that no sign tells, and a store."""

pytestmark = pytest.mark.parametrize(
    "make", [one for one in OPEN if one not in OTHERS], ids=lambda make: make.__name__
)


@pytest.fixture(params=["no bytes", "no rows"])
def write_empty(
    request: pytest.FixtureRequest, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Write:
    """Return a writer of empty shards: without a byte, or as the format's writer has them."""
    if request.param == "no bytes":
        if make is zarr:
            pytest.skip("a store is a folder")
        return lambda path: path.write_bytes(b"") and None
    folder = tmp_path / "empty"
    folder.mkdir()
    with monkeypatch.context() as patch:
        for one in OPEN:
            patch.setitem(OPEN, one, lambda folder: None)
        make(folder, Corpus([]))
    sources = {path.suffix: path for path in folder.iterdir()}

    def copy(path: Path) -> None:
        source = sources.get(path.suffix)
        if source is None:  # nothing was packed
            path.write_bytes(b"")
        elif source.is_dir():
            shutil.copytree(source, path)
        else:
            shutil.copy(source, path)

    return copy


def shards(folder: Path) -> list[Path]:
    """Return what is given to open a corpus, without the files beside."""
    beside = (".idx", ".index")
    return [one for one in sorted(folder.glob("[!.]*")) if one.suffix not in beside]


def ways_to_open(make: Make, folder: Path) -> list[Callable[[], sh.Deserializer]]:
    paths = shards(folder)
    ways = [partial(OPEN[make], folder)]
    if make is arrow_files:
        ways = [partial(sh.ArrowDeserializer, paths, ALL)]
    if make not in UNKNOWN:
        pattern = str(folder / f"*{paths[0].suffix}")
        ways += [partial(sh.open, place) for place in (paths, pattern, folder)]
    return ways


def ids_of(corpus: sh.Deserializer) -> list[str]:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        return [one for minibatch in source.minibatches(50) for one in minibatch.ids]


@pytest.mark.parametrize("name", ["-", "zz"])
def test_an_empty_shard_has_no_rows(
    make: Make, name: str, write_empty: Write, tmp_path: Path
) -> None:
    folder = tmp_path / "good"
    folder.mkdir()
    wanted = ids_of(make(folder, corpus_for(make)))
    for suffix in {path.name.partition(".")[2] for path in folder.glob("[!.]*")}:
        write_empty(folder / f"{'' if make is arrow_files else 'part-'}{name}.{suffix}")
    for way in ways_to_open(make, folder):
        assert ids_of(way()) == wanted


def test_nothing_but_empty_shards_is_an_empty_corpus(
    make: Make, write_empty: Write, tmp_path: Path
) -> None:
    folder = tmp_path / "good"
    folder.mkdir()
    make(folder, corpus_for(make))
    for path in folder.iterdir():
        path.unlink() if path.is_file() else shutil.rmtree(path)
        if path.name != ".sweephand":
            write_empty(path)
    for way in ways_to_open(make, folder):
        with pytest.raises(sh.DataError, match="the corpus is empty") as caught:
            ids_of(way())
        assert all(path.name in str(caught.value) for path in shards(folder))
