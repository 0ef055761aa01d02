"""Braces stand for the paths that shells make of them, in every format."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.read.format_corpora import (
    Make,
    corpus_for,
    csv_rows,
    ctf,
    datatrove,
    hdf5,
    jsonl,
    megatron,
    mlf,
    text_lines,
    tfrecords,
    webdataset,
    zarr,
)
from tests.read.rows import rows

import sweephand as sh
from sweephand.files.find import expand_braces


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("a-{000000..000003}.tar", [f"a-{n:06}.tar" for n in range(4)]),
        ("{8..11}", ["8", "9", "10", "11"]),
        ("{08..11}", ["08", "09", "10", "11"]),
        ("{a,b}{1,2}", ["a1", "a2", "b1", "b2"]),
        ("{3..1}", ["{3..1}"]),
        ("{x}-{1..}-{}-}{", ["{x}-{1..}-{}-}{"]),
        ("s3://b/{a,b}?x={1,2}", ["s3://b/a?x={1,2}", "s3://b/b?x={1,2}"]),
    ],
)
def test_braces_stand_for_what_shells_make_of_them(pattern: str, wanted: list[str]) -> None:
    assert expand_braces(pattern) == wanted


@pytest.mark.parametrize(
    "pattern", ["{0..1000000}", "{0..999}{0..999}{0..9}", "{1..9" + "9" * 17 + "}"]
)
def test_a_pattern_that_stands_for_too_many_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="more than 1000000 paths"):
        expand_braces(pattern)


SUFFIXES: dict[Make, str] = {
    **{megatron: ".idx", datatrove: ".ds", jsonl: ".jsonl", tfrecords: ".tfrecord"},
    **{ctf: ".ctf", webdataset: ".tar", mlf: ".mlf", text_lines: ".txt", csv_rows: ".csv"},
    **{hdf5: ".h5", zarr: ".zarr"},
}


@pytest.mark.parametrize("make", SUFFIXES)
def test_every_format_of_files_takes_braces(make: Make, tmp_path: Path) -> None:
    make(tmp_path, corpus_for(make))
    suffix = SUFFIXES[make]
    wanted = rows(sh.open(f"{tmp_path}/part-*{suffix}"))
    parts = len(list(tmp_path.glob(f"part-*{suffix}")))
    assert rows(sh.open(f"{tmp_path}/part-{{0..{parts - 1}}}{suffix}")) == wanted
    with pytest.raises(FileNotFoundError, match=f"part-{parts}"):
        sh.open(f"{tmp_path}/part-{{0..{parts}}}{suffix}")


def test_a_file_that_has_braces_in_its_name_is_itself(tmp_path: Path) -> None:
    for name in ("{a,b}.txt", "a.txt", "b.txt"):
        (tmp_path / name).write_text(f"in {name}")
    (found,) = rows(sh.open(os.fspath(tmp_path / "{a,b}.txt"), index=None))
    assert found["text"] == [b"in {a,b}.txt"]
