"""Names of any bytes are served, found again and told, and never command a terminal."""

from __future__ import annotations

import json
import os
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.read.format_corpora import (
    ALL,
    OPEN_FILES,
    TOKENS,
    Make,
    arrow_files,
    corpus_for,
    ctf,
    jsonl,
    megatron,
    npy,
    parquet,
    raw_tokens,
    tfrecords,
    tfrecords_in_gzip,
)

import sweephand as sh
from sweephand.cli import main
from sweephand.errors import printable

ESCAPE = "\x1b]0;owned\x07\x1b[31m"
ODD = os.fsdecode(b"odd \xff\xe9 \x1b]0;owned\x07\n\xe2\x80\xae")
"""Bytes that are no text, a new title for the terminal, a line end, and text from the right."""

SHOWN = r"odd \xff\xe9 \x1b]0;owned\x07\n\u202e"

OPEN: dict[Make, tuple[str, Any]] = {
    **{
        make: (Path(pattern).suffix or ".idx", opener)
        for make in (ctf, jsonl, tfrecords, tfrecords_in_gzip, parquet, megatron, raw_tokens)
        for pattern, opener in [OPEN_FILES[make]]
    },
    arrow_files: (".arrow", partial(sh.ArrowDeserializer, streams=ALL)),
    npy: (".npy", lambda path: sh.NpyDeserializer({"tokens": path}, TOKENS)),
}


def place(make: Make, folder: Path) -> Path:
    """Write the first file of a corpus under an odd name, in an odd folder."""
    plain, odd = folder / "plain", folder / ODD
    plain.mkdir()
    odd.mkdir()
    make(plain, corpus_for(make))
    suffix, _ = OPEN[make]
    first = sorted(plain.glob(f"[a-z]*{suffix}"))[-1 if make is npy else 0]
    for path in plain.glob(f"{first.stem}.*"):
        path.rename(odd / (ODD + path.suffix))
    return odd / (ODD + suffix)


@pytest.mark.parametrize("make", OPEN, ids=lambda make: make.__name__)
def test_a_file_of_any_name_is_served_resumed_and_found(make: Make, tmp_path: Path) -> None:
    path = place(make, tmp_path)
    _, open_it = OPEN[make]
    with sh.MinibatchSource(open_it(path), max_sweeps=1, num_threads=0) as source:
        first = source.next_minibatch(5)
        state = json.loads(json.dumps(source.get_checkpoint_state()))
        rest = [batch.ids for batch in source.minibatches(5)]
    assert all(one.startswith(ODD) for one in first.ids)
    with sh.MinibatchSource(open_it(path), max_sweeps=1, num_threads=0) as source:
        source.restore_from_checkpoint(state)
        assert [batch.ids for batch in source.minibatches(5)] == rest
        assert source.find(first.ids[0]) == 0
    again = pickle.loads(pickle.dumps(open_it(path)))
    sh.MinibatchSource(again, num_threads=0).close()


@pytest.mark.parametrize("make", OPEN, ids=lambda make: make.__name__)
def test_an_error_tells_any_name_in_what_can_be_printed(make: Make, tmp_path: Path) -> None:
    path = place(make, tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2 - 1])
    _, open_it = OPEN[make]
    with pytest.raises(sh.DataError) as caught:
        sh.MinibatchSource(open_it(path), num_threads=0).next_minibatch(10_000)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.file == str(path)
    assert SHOWN in str(error)
    check_printable(str(error))
    path.unlink()
    with pytest.raises(FileNotFoundError) as absent:
        open_it(path)
    check_printable(str(absent.value))


def check_printable(text: str, *, lines: bool = False) -> None:
    text.encode()
    keep = "\n" if lines else ""
    assert printable(text, keep=keep) == text


def test_names_in_the_data_are_told_in_what_can_be_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fields of JSON, CNTK's text and Arrow, which who wrote the data chose."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    field = f"x{ESCAPE}"
    (tmp_path / "a.jsonl").write_text(
        f"{json.dumps({field: 1})}\n{json.dumps({field: None})}\n"
    )
    (tmp_path / "a.ctf").write_text(f"0 |x 1\n1 |x {ESCAPE}\n")
    pq.write_table(pa.table({field: [1, None]}), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.ctf", "a.parquet"):
        assert main(["index", str(tmp_path / name)]) in (0, 1)
        main(["info", str(tmp_path / name)])
        printed = capsys.readouterr()
        check_printable(printed.out + printed.err, lines=True)
        assert "owned" in "".join((printed.out + printed.err).split())
    streams = sh.StreamDefs(**{field: sh.StreamDef()})
    with pytest.raises(sh.DataError) as caught:
        sh.MinibatchSource(sh.JSONLDeserializer(tmp_path / "a.jsonl", streams))
    check_printable(str(caught.value))
    assert caught.value.stream == field


def test_a_data_error_shows_no_control_characters_of_any_part() -> None:
    error = sh.DataError(ESCAPE, ESCAPE, 1, 2, ESCAPE, ESCAPE, 3)
    check_printable(str(error))
    assert (error.reason, error.file, error.stream) == (ESCAPE, ESCAPE, ESCAPE)
