"""Plain text: lines, as they are and compressed."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

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


def test_text_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("text".encode("utf-16"))
    with pytest.raises(sh.DataError, match="in UTF-16"):
        texts(sh.TextDeserializer(path))
    with pytest.raises(ValueError, match="only 'text'"):
        sh.TextDeserializer(path, ["tokens"])
