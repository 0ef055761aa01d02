"""No index, however wrong, makes the core read or write outside its buffers."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import extent
from tests.read.format_corpora import (
    OPEN,
    Corpus,
    Make,
    arrow_files,
    ctf,
    htk,
    jsonl,
    jsonl_in_gzip,
    mlf,
    parquet,
    tfrecords,
    webdataset,
)

import sweephand as sh
from sweephand.files import index_file
from sweephand.files.index_file import INDEX, Index, read_index, write_index
from sweephand.run.records import read_block

INDEXED = [
    *(ctf, jsonl, jsonl_in_gzip, tfrecords, parquet),
    *(arrow_files, webdataset, htk, mlf),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def small() -> Corpus:
    return Corpus.of_lengths([3, 1, 4, 2, 3, 5])


def delivered(folder: Path, make: Make) -> list[list[int]]:
    with sh.MinibatchSource(
        OPEN[make](folder), randomize=False, max_sweeps=1, num_threads=0
    ) as source:
        return [
            one.reshape(-1).tolist()
            for batch in source.minibatches(7)
            for one in batch["tokens"].as_sequences()
        ]


def read(path: Path) -> tuple[Index, Any]:
    with path.open("rb") as file:
        file.seek(len(INDEX.head))
        meaning = json.loads(bytes(read_block(file)[1]))["meaning"]
    content = read_index(path, meaning, {path.stat().st_uid})
    assert content is not None
    return content, meaning


@pytest.mark.parametrize("make", INDEXED, ids=lambda make: make.__name__)
def test_wrong_numbers_in_an_index_raise_or_change_values_and_do_no_more(
    make: Make, tmp_path: Path
) -> None:
    make(tmp_path, small())
    delivered(tmp_path, make)
    (path,) = tmp_path.glob(".sweephand/*.sweephand-index")
    whole, meaning = read(path)
    values = [0, 1, 2, 1000, 2**20] if extent.exhaustive else [1, 1000]
    for name in whole.arrays:
        for value in values:
            for places in (slice(0, 1), slice(-1, None), slice(None)):
                array = np.array(whole.arrays[name])
                array[places] = min(value, np.iinfo(array.dtype).max)
                write_index(path, replace(whole, arrays={**whole.arrays, name: array}), meaning)
                try:
                    delivered(tmp_path, make)
                except Exception:  # whatever it is: the process lives, under ASan too
                    continue


def test_an_index_of_another_user_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "data"
    data.mkdir()
    jsonl(data, small())
    whole = delivered(data, jsonl)
    (path,) = data.glob(".sweephand/*.sweephand-index")
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        monkeypatch.setattr(index_file, "_trusted_owners", lambda _: {0, 12345})
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    forged = path.stat()
    assert delivered(data, jsonl) == whole
    assert path.stat().st_mtime_ns == forged.st_mtime_ns, "it is left as it is"
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_the_owner_of_the_data_may_keep_an_index(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    jsonl(tmp_path, small())
    delivered(tmp_path, jsonl)
    (path,) = tmp_path.glob(".sweephand/*.sweephand-index")
    for one in (path, *tmp_path.glob("*.jsonl")):
        os.chown(one, 12345, 12345)
    read(path)
    before = path.stat().st_mtime_ns
    delivered(tmp_path, jsonl)
    assert path.stat().st_mtime_ns == before
