"""Plain text: lines and documents, as they are and compressed."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh
from sweephand.deserializers.units import line_units


def texts(corpus: sh.Deserializer, **options: Any) -> list[bytes]:
    options = {"randomize": False, "max_sweeps": 1, **options}
    with sh.MinibatchSource(corpus, **options) as source:
        return [text for one in source.minibatches(7) for text in one["text"].values]


@given(
    content=st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\r", b"\0", b"\xff"])),
    unit=st.sampled_from([1, 5, 1 << 20]),
    is_packed=st.booleans(),
)
def test_lines_are_those_that_readlines_has(
    content: list[bytes], unit: int, is_packed: bool, tmp_path_factory: Any
) -> None:
    text = b"".join(content)
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
        tail: list[bytes] = []
    else:
        tail = [lines.pop()]
    wanted = [line.removesuffix(b"\r") for line in lines] + tail
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes(gzip.compress(text) if is_packed else text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_units, "UNIT_BYTES", unit)
        patch.setattr(os, "fsync", lambda _: None)
        for _ in range(2):  # without an index, and with one
            if wanted:
                assert texts(sh.TextDeserializer(path)) == wanted
            else:
                with pytest.raises(sh.DataError, match=r"empty|no row"):
                    texts(sh.TextDeserializer(path))


@pytest.mark.parametrize("is_packed", [False, True])
def test_documents_are_whole_files(tmp_path: Path, is_packed: bool) -> None:
    contents = [b"a\nb\n", b"", b"\xef\xbb\xbfc"]
    for number, content in enumerate(contents):
        packed = gzip.compress(content) if is_packed else content
        (tmp_path / f"{number}.txt").write_bytes(packed)
    corpus = sh.TextDeserializer(str(tmp_path / "*.txt"), ["text"], "document")
    assert texts(corpus) == [b"a\nb\n", b"", b"c"]
    with sh.MinibatchSource(corpus, randomize=False) as source:
        assert source.next_minibatch(3).ids == ["0.txt__0", "1.txt__0", "2.txt__0"]


def test_documents_that_are_damaged_or_empty_move_no_others(tmp_path: Path) -> None:
    packed = gzip.compress(b"a" * 100)
    contents = [b"zero", packed[:-1] + b"?", b"", gzip.compress(b""), b"four"]
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.txt").write_bytes(content)
    documents = sh.TextDeserializer(str(tmp_path / "*.txt"), sample_by="document")
    numbers = sh.ArrayDeserializer({"number": np.arange(5)})
    for _ in range(2):  # without an index, and with one
        with sh.MinibatchSource(
            [documents, numbers], randomize=False, max_sweeps=1, max_errors=1
        ) as source:
            minibatch = source.next_minibatch(5)
            assert minibatch["number"].values.tolist() == [0, 2, 3, 4]
            assert minibatch["text"].values.tolist() == [b"zero", b"", b"", b"four"]
            assert [error.sequence for error in source.errors] == [None]


def test_text_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("text".encode("utf-16"))
    with pytest.raises(sh.DataError, match="in UTF-16"):
        texts(sh.TextDeserializer(path))
    with pytest.raises(ValueError, match="only 'text'"):
        sh.TextDeserializer(path, ["tokens"])
    with pytest.raises(ValueError, match="sample_by must be 'line' or 'document'"):
        sh.TextDeserializer(path, sample_by="word")  # type: ignore[arg-type]
