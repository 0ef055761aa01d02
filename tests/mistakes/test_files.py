"""The paths and folders that newcomers open, and what they are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.mistakes.mistake import Mistake, assert_said, each
from tests.mistakes.newcomer import (
    CTF,
    JSONL,
    ROWS,
    both,
    closed,
    in_folder,
    npz,
    packages,
    parquet,
    serve,
    splits,
    tfrecord,
    write,
)

import sweephand as sh

MISTAKES = [
    *(
        Mistake(
            f"a field that {name} lacks",
            lambda folder, make=make: serve(sh.open(make(folder), ["z"])),  # type: ignore[misc]
            ValueError if make is npz else sh.DataError,
            ("'z'", f"there are: {fields}"),
        )
        for make, name, fields in [
            (CTF, "CTF", "A, S"),
            (JSONL, "JSONL", "x, y"),
            (tfrecord, "TFRecord", "x, y"),
            (parquet, "Parquet", "x, y"),
            (npz, "npz", "x, y"),
        ]
    ),
    Mistake(
        "a field that CTF lacks, with a shape",
        lambda f: serve(sh.CTFDeserializer(CTF(f), {"z": sh.StreamDef(shape=2)})),
        sh.DataError,
        ("no field 'z', there are: A, S",),
    ),
    Mistake(
        "a misspelt path",
        lambda f: sh.open(str(CTF(f)).replace("train", "trian")),
        FileNotFoundError,
        ("similar names there: 'train.ctf'",),
    ),
    Mistake(
        "a misspelt path of a deserializer",
        lambda f: sh.CTFDeserializer(str(CTF(f)).replace("train", "trian")),
        FileNotFoundError,
        ("similar names there: 'train.ctf'",),
    ),
    Mistake(
        "a folder that is not there",
        lambda f: sh.open(f / "data" / "train.ctf"),
        FileNotFoundError,
        ("there is no folder", "data"),
    ),
    Mistake(
        "a pattern of nothing",
        lambda f: sh.open(f / "*.parquet"),
        FileNotFoundError,
        ("no file matches the pattern",),
    ),
    Mistake("an empty folder", lambda f: sh.open(f), ValueError, ("is empty",)),
    Mistake(
        "an empty file",
        lambda f: sh.open(write("a.ctf", "")(f)),
        sh.DataError,
        ("the corpus is empty", "a.ctf"),
    ),
    Mistake(
        "an empty file of a deserializer",
        lambda f: sh.JSONLDeserializer(write("a.jsonl", "")(f)),
        sh.DataError,
        ("the corpus is empty", "a.jsonl"),
    ),
    Mistake(
        "a folder of two formats",
        lambda f: sh.open(both(f)),
        ValueError,
        ("1 file (a.parquet) of Parquet", "1 file (train.jsonl) of JSON lines", "'*.parquet'"),
    ),
    Mistake(
        "paths of two formats",
        lambda f: sh.open([CTF(f), JSONL(f)]),
        ValueError,
        ("several formats", "CNTK text", "JSON lines"),
    ),
    Mistake(
        "data beside what is not read",
        lambda f: sh.open([CTF(f), write("more.pkl", b"\x80\x04")(f)][0].parent),
        ValueError,
        ("train.ctf", "more.pkl", "objects of Python", "'*.ctf'"),
    ),
    Mistake(
        "folders of sounds",
        lambda f: sh.open(write("cat/1.wav", b"RIFF")(f).parent.parent),
        ValueError,
        ("the folders cat", "sound", "sh.decode.audio('sound')"),
    ),
    Mistake(
        "a folder of pictures",
        lambda f: sh.open(write("cat/1.png", b"\x89PNG")(f).parent),
        ValueError,
        ("1 file (1.png)", "pictures", "sh.ImageFolder(path)"),
    ),
    Mistake(
        "folders of splits",
        lambda f: sh.open(in_folder("train", CTF)(f)),
        ValueError,
        ("the folders train", "open one of them"),
    ),
    Mistake(
        "a table of text without a row",
        lambda f: sh.MinibatchSource(sh.open(write("a.csv", "a,b\n")(f))),
        sh.DataError,
        ("empty",),
    ),
    Mistake(
        "one JSON array",
        lambda f: sh.open(write("a.json", json.dumps(ROWS))(f)),
        ValueError,
        ("one JSON array", "a line for every object"),
    ),
    Mistake(
        "one JSON object over lines",
        lambda f: sh.open(write("a.json", json.dumps(ROWS[0], indent=1))(f)),
        sh.DataError,
        ("no JSON object", "a whole one in every line"),
    ),
    Mistake(
        "a compressed file",
        lambda f: sh.open(write("a.zip.xz", b"\xfd7zXZ\0")(f)),
        ValueError,
        ("compressed: unpack it",),
    ),
    Mistake(
        "objects of Python",
        lambda f: sh.open(write("a.pkl", b"\x80\x04")(f)),
        ValueError,
        ("objects of Python", "ArrayDeserializer"),
    ),
    Mistake(
        "an open file",
        lambda f: sh.open(closed(CTF(f))),
        TypeError,
        ("give its path: sh.open(path)",),
    ),
    Mistake("no path", lambda _: sh.open(3), TypeError, ("sh.open takes paths",)),  # type: ignore[arg-type]
    Mistake(
        "bare numbers",
        lambda f: sh.open(write("a.bin", bytes(8))(f)),
        ValueError,
        ("dtype", "sequence_length"),
    ),
    Mistake(
        "a misspelt dtype of bare numbers",
        lambda f: sh.open(write("a.bin", bytes(8))(f), dtype="uint17", sequence_length=2),
        TypeError,
        ("got 'uint17'",),
    ),
    Mistake(
        "a saved DatasetDict",
        lambda f: sh.open(splits(f)),
        ValueError,
        ("the splits train, test", "give the folder of one", "train'"),
    ),
    Mistake(
        "two archives",
        lambda f: sh.open([npz(f), npz(f)]),
        ValueError,
        ("2 corpora are given", "open each"),
    ),
    Mistake(
        "Parquet that is CTF",
        lambda f: (packages().pq, sh.ParquetDeserializer(CTF(f))),
        sh.DataError,
        ("no Parquet file",),
    ),
    Mistake(
        "CTF that is JSON",
        lambda f: sh.CTFDeserializer(JSONL(f)),
        sh.DataError,
        ("no sample that tells a stream",),
    ),
]


@each(MISTAKES)
def test_a_mistake_is_told_with_its_way_out(mistake: Mistake, tmp_path: Path) -> None:
    assert_said(mistake, tmp_path)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n"


@pytest.mark.parametrize(
    "suffix", ["csv", "jsonl", "parquet", "txt", "npy", "tar", "bin", "h5"]
)
def test_a_pointer_of_git_lfs_is_no_data(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text(POINTER)
    for place in (path, tmp_path):
        with pytest.raises(sh.DataError, match="git lfs pull"):
            sh.open(place)


@pytest.mark.parametrize("opened", [sh.CSVDeserializer, sh.TextDeserializer])
def test_a_pointer_of_git_lfs_is_no_shard(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("oid sha256:4d7a21\n1\n")
    (tmp_path / "b.csv").write_text(POINTER)
    with pytest.raises(sh.DataError, match="git lfs pull"):
        sh.MinibatchSource(opened(str(tmp_path / "*.csv"), ids=["a", "b"]))


@pytest.mark.parametrize("is_below", [False, True])
def test_the_files_of_metadata_are_not_left_out(is_below: bool, tmp_path: Path) -> None:
    place = tmp_path / "train" if is_below else tmp_path
    place.mkdir(exist_ok=True)
    (place / "1.png").write_bytes(b"\x89PNG")
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "1.png", "text": "a cat"}\n')
    with pytest.raises(ValueError, match=r"load_dataset\('imagefolder'"):
        sh.open(tmp_path)


def test_lines_in_utf_16_are_said_to_be_so(tmp_path: Path) -> None:
    for name in ("utf-16-le", "utf-16-be"):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes('\ufeff{"x": 1}\n'.encode(name))
        with pytest.raises(ValueError, match="UTF-16: convert it"):
            sh.open(path)


def test_a_wide_window_of_zstd_is_no_damage(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    wide = zstandard.ZstdCompressionParameters(window_log=30)
    packer = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(packer.compress(b'{"x": 1}\n') + packer.flush())
    with pytest.raises(sh.DataError, match="without --long") as caught:
        sh.open(path)
    assert "damaged" not in str(caught.value)
