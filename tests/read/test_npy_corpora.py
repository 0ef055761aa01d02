"""Rows of tokens in arrays are cut into sequences; unequal arrays are a sequence each."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.read.rows import rows

import sweephand as sh

TOKENS = np.array([5, 6, 0, 7, 0, 0, 8, 9, 10], np.uint16)
CUT: list[tuple[dict[str, int], list[list[int]]]] = [
    ({"sequence_length": 4}, [[5, 6, 0, 7], [0, 0, 8, 9], [10]]),
    ({"sequence_length": 9}, [TOKENS.tolist()]),
    ({"end_of_document": 0}, [[5, 6, 0], [7, 0], [0], [8, 9, 10]]),
]


def sequences(corpus: sh.Deserializer) -> list[Any]:
    (name,) = sh.MinibatchSource(corpus).streams
    return [row[name] for row in rows(corpus)]


@pytest.mark.parametrize(("options", "wanted"), CUT)
def test_shards_of_tokens_are_one_corpus(tmp_path: Path, options: Any, wanted: Any) -> None:
    TOKENS.tofile(tmp_path / "bare.bin")
    assert sequences(sh.open(tmp_path / "bare.bin", dtype="uint16", **options)) == wanted
    (tmp_path / "bare.bin").unlink()
    store = pytest.importorskip("fsspec").filesystem("memory")
    for number in range(3):
        np.save(tmp_path / f"part-{number}.npy", TOKENS)
    for place in (tmp_path, f"{tmp_path}/*.npy", f"{tmp_path}/part-{{0..2}}.npy"):
        corpus = sh.open(place, **options)
        assert sequences(corpus) == 3 * wanted
        source = sh.MinibatchSource(corpus, randomize=False)
        assert source.sequence_ids(0, 1) == ["part-0.npy__0"]
        again = sh.open(place, **options)  # by the index that is kept
        assert sequences(again) == 3 * wanted
    store.put(str(tmp_path / "part-0.npy"), "/npy-tokens/a.npy")
    assert sequences(sh.open("memory://npy-tokens/a.npy", index=None, **options)) == wanted


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((3, 4), np.uint16), r"one row of numbers, not uint16 of shape \(3, 4\)"),
        (np.zeros(3, ">u2"), "the array is of >u2"),
        (np.zeros(3, bool), "not bool of shape"),
    ],
)
def test_what_is_no_row_of_tokens_is_refused(tmp_path: Path, array: Any, reason: str) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(sh.DataError, match=reason):
        sh.open(tmp_path / "a.npy", sequence_length=2)
    np.save(tmp_path / "a.npy", TOKENS)
    np.save(tmp_path / "b.npy", TOKENS.astype(np.int32))
    with pytest.raises(sh.DataError, match="is of int32, not of uint16"):
        sh.open(tmp_path, sequence_length=2)


def test_unequal_arrays_in_a_folder_are_a_sequence_each(tmp_path: Path) -> None:
    wanted = [np.full((n + 1, 3), n, np.float32) for n in range(5)]
    for number, one in enumerate(wanted):
        np.save(tmp_path / f"utt-{number}.npy", one)
    for place in (tmp_path, f"{tmp_path}/*.npy"):
        corpus = sh.open(place)
        assert sequences(corpus) == [one.tolist() for one in wanted]
        source = sh.MinibatchSource(corpus, randomize=False)
        assert source.sequence_ids(0, 2) == ["utt-0.npy__0", "utt-1.npy__0"]
    labels = tmp_path / "labels"
    labels.mkdir()
    for number in range(5):
        np.save(labels / f"{number}.npy", np.full(number + 1, number))
    listed = {"x": sorted(tmp_path.glob("*.npy")), "y": sorted(labels.glob("*.npy"))}
    found = rows(sh.NpyDeserializer(listed))
    assert [row["y"] for row in found] == [[n] * (n + 1) for n in range(5)]
    store = pytest.importorskip("fsspec").filesystem("memory")
    for path in tmp_path.glob("*.npy"):
        store.put(str(path), f"/utterances/{path.name}")
    assert sequences(sh.open("memory://utterances")) == [one.tolist() for one in wanted]


def test_arrays_that_are_not_alike_are_no_sequences_of_one_stream(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 4)))
    np.save(tmp_path / "b.npy", np.zeros((2, 5)))
    with pytest.raises(ValueError, match="must have the same number of sequences"):
        sh.open(tmp_path)


def test_a_store_of_zarr_in_an_archive_is_no_npz(tmp_path: Path) -> None:
    for name in ("zarr.json", "group/x/.zarray"):
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            archive.writestr(name, "{}")
            archive.writestr("x/c/0", b"")
        with pytest.raises(ValueError, match="no format that is known"):
            sh.open(tmp_path / "x.zip")
    np.savez(tmp_path / "x.npz", x=np.arange(3))
    assert sequences(sh.open(tmp_path / "x.npz")) == [[0], [1], [2]]
