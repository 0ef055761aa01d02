"""Files cut at every byte and flipped at every byte: an error with its place, or sequences."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import extent
from tests.read.format_corpora import (
    ONE_EACH,
    OPEN,
    Corpus,
    Make,
    csv_rows,
    hdf5,
    hdf5_in_place,
    hdf5_in_vlen,
    npy,
    parquet,
    raw_tokens,
    text_lines,
    zarr,
)

import sweephand as sh

pytestmark = pytest.mark.parametrize("make", OPEN, ids=lambda make: make.__name__)

VERIFIED = (
    "tfrecords",
    "tfrecords_in_gzip",
    "tfrecords_in_zlib",
    "sequence_examples",
    "jsonl_in_gzip",
    "jsonl_in_zstd",
)
UNFRAMED = (raw_tokens, text_lines, csv_rows)
"""Formats of which any beginning is a file, and any bytes are values."""

PADDED = ("array_records",)
"""Those whose files have hashes, and are mostly blank."""

"""Formats whose files are not found by a pattern."""

_MOST_VARIANTS = 250  # of a file; of larger files not every byte
_FEWER_VARIANTS = 60  # of all files together
SLOW = (hdf5, hdf5_in_place, hdf5_in_vlen, zarr)
"""Formats whose libraries take long to open a file."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Indexes of files that live for a moment need not reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # bytes that belong to no sequence
        yield


def small(make: Make) -> Corpus:
    if make is raw_tokens:
        return Corpus.of_lengths([5, 5, 3, 5, 2])
    if make in ONE_EACH:
        return Corpus.of_lengths([1] * 5)
    return Corpus.of_lengths([3, 1, 4, 2, 3])


def delivered(folder: Path, make: Make, max_errors: int = 0) -> tuple[list[list[Any]], Any]:
    """Return the tokens of every sequence, and the source."""
    source = sh.MinibatchSource(
        OPEN[make](folder), randomize=False, max_sweeps=1, num_threads=0, max_errors=max_errors
    )
    with source:
        found = []
        for batch in source.minibatches(7):
            for values in (batch[name].values for name in batch):
                assert len(values) >= 0
            found += [one.reshape(-1).tolist() for one in batch["tokens"].as_sequences()]
    return found, source


def check(folder: Path, make: Make, whole: list[list[Any]]) -> str:
    """Open a damaged corpus with and without a budget; return how it went."""
    verdict = "refused"
    refused: sh.DataError | None = None
    try:
        found, _ = delivered(folder, make)
        verdict = "served"
    except sh.DataError as error:
        refused = error
    except ValueError:
        # The header of an array tells another dtype or shape: valid, but not what is wanted.
        assert make in (npy, parquet, hdf5, hdf5_in_place, hdf5_in_vlen, zarr)
    if refused is not None:
        assert str(folder) in str(refused.file)
        assert refused.reason
    if verdict == "served" and make.__name__ in (*VERIFIED, *PADDED):
        assert all(one in whole for one in found)
    try:
        found, source = delivered(folder, make, max_errors=50)
    except (sh.DataError, ValueError):
        assert verdict == "refused"
    else:
        if verdict == "refused":
            assert source.errors
        if make.__name__ in (*VERIFIED, *PADDED):
            assert all(one in whole for one in found)
    return verdict


def places(size: int, make: Make, num_files: int = 1) -> Sequence[int]:
    most = _FEWER_VARIANTS // num_files + 1 if make in SLOW else _MOST_VARIANTS
    return extent.sample(range(0, size, max(1, -(-size // most))), most // 16 + 1)


def written(tmp_path: Path, make: Make) -> dict[str, bytes]:
    good = tmp_path / "good"
    good.mkdir()
    make(good, small(make))
    files = [path for path in sorted(good.rglob("*")) if path.is_file()]
    return {str(path.relative_to(good)): path.read_bytes() for path in files}


def data_of(files: dict[str, bytes]) -> list[str]:
    """The files but for lists of HTK's, which are of the user and name any files."""
    return [name for name in files if not name.endswith(".scp")]


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def test_a_file_cut_at_any_byte_is_an_error_or_fewer_sequences(
    make: Make, tmp_path: Path
) -> None:
    files = written(tmp_path, make)
    whole, _ = delivered(tmp_path / "good", make)
    name = max(data_of(files), key=lambda one: len(files[one]))
    verdicts = []
    for number, size in enumerate(places(len(files[name]), make)):
        folder = tmp_path / f"cut-{number}"
        write(folder, {**files, name: files[name][:size]})
        verdicts.append(check(folder, make, whole))
    if make not in UNFRAMED:
        assert verdicts.count("refused") >= len(verdicts) // 2


def test_a_file_with_any_byte_flipped_is_an_error_or_sequences(
    make: Make, tmp_path: Path
) -> None:
    files = written(tmp_path, make)
    whole, _ = delivered(tmp_path / "good", make)
    verdicts = []
    for name in data_of(files):
        content = files[name]
        for place in places(len(content), make, len(files)):
            folder = tmp_path / f"{name.replace('/', '-')}-{place}"
            damaged = bytearray(content)
            damaged[place] ^= 0x11 if place % 2 else 0x80
            write(folder, {**files, name: bytes(damaged)})
            verdicts.append(check(folder, make, whole))
    if make.__name__ in VERIFIED:
        assert verdicts.count("refused") >= 0.9 * len(verdicts)
