"""Documents in files of bare tokens: by offsets, and by the token that ends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh


def documents(corpus: sh.Deserializer, **options: Any) -> list[list[int]]:
    options = {"randomize": False, "max_sweeps": 1, **options}
    with sh.MinibatchSource(corpus, **options) as source:
        return [
            one.tolist()
            for minibatch in source.minibatches(9)
            for one in minibatch["tokens"].as_sequences()
        ]


def write(path: Path, tokens: list[int], ends: list[int], dtype: str = "<u4") -> None:
    np.array(tokens, dtype).tofile(path)
    np.array(ends, "<u8").tofile(path.with_name(f"{path.name}.index"))


@given(parts=st.lists(st.lists(st.sampled_from([0, 1, 7]), max_size=9), min_size=1, max_size=3))
def test_a_token_ends_every_document(parts: list[list[int]], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("tokens")
    wanted: list[list[int]] = []
    for number, tokens in enumerate(parts):
        np.array(tokens, np.uint16).tofile(folder / f"{number}.bin")
        wanted.append([])
        for token in tokens:
            wanted[-1].append(token)
            if token == 0:
                wanted.append([])
        if not wanted[-1]:
            wanted.pop()
    for _ in range(2):  # without an index, and with one
        corpus = sh.RawTokensDeserializer(str(folder / "*.bin"), "uint16", end_of_document=0)
        if wanted:
            assert documents(corpus) == wanted
        else:
            with pytest.raises(sh.DataError, match="the corpus is empty"):
                documents(corpus)


def test_blocks_do_not_cut_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweephand.deserializers.tokens._BLOCK_TOKENS", 4)
    tokens = [1, 2, 3, 0, 4, 5, 6, 7, 8, 0, 9]
    np.array(tokens, np.int32).tofile(tmp_path / "a.bin")
    corpus = sh.RawTokensDeserializer(tmp_path / "a.bin", "int32", end_of_document=0)
    assert documents(corpus) == [[1, 2, 3, 0], [4, 5, 6, 7, 8, 0], [9]]


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_the_type_of_tokens_follows_from_the_last_end(tmp_path: Path, dtype: str) -> None:
    write(tmp_path / "a.ds", [1, 2, 3, 4, 5], [2, 5], dtype)
    (tmp_path / "a.ds.metadata").write_text("gpt2|2\n5\n")
    corpus = sh.open(tmp_path)
    assert documents(corpus) == [[1, 2], [3, 4, 5]]
    with sh.MinibatchSource(corpus) as source:
        assert source.streams["tokens"].dtype == np.dtype(dtype)
    cut = sh.open(tmp_path / "a.ds", dtype=np.dtype(dtype).name, sequence_length=4)
    assert documents(cut) == [[1, 2, 3, 4], [5]]


def test_offsets_may_be_an_array_that_begins_with_zero(tmp_path: Path) -> None:
    np.arange(6, dtype=np.uint16).tofile(tmp_path / "a.bin")
    np.save(tmp_path / "ends.npy", [0, 1, 1, 6])
    corpus = sh.RawTokensDeserializer(
        tmp_path / "a.bin", "uint16", offsets=tmp_path / "ends.npy"
    )
    with pytest.raises(sh.DataError, match="the document has no tokens") as caught:
        documents(corpus)
    assert caught.value.sequence == 1
    assert documents(corpus, max_errors=1) == [[0], [1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ([2, 1, 5], "document 1 ends before it begins"),
        ([2, 4], "the last document ends with token 4, and there are 5"),
        ([2, 6], "the last document ends with token 6, and there are 5"),
        ([], "the last document ends with token 0, and there are 5"),
        ([2, 2**63], "or beyond any file"),
    ],
)
def test_ends_that_cannot_be_are_refused(tmp_path: Path, ends: list[int], reason: str) -> None:
    write(tmp_path / "a.ds", [1, 2, 3, 4, 5], ends)
    with pytest.raises(sh.DataError, match=reason):
        documents(sh.RawTokensDeserializer(tmp_path / "a.ds", "uint32", offsets=".index"))


def test_what_is_asked_for_must_be_one_thing(tmp_path: Path) -> None:
    path = tmp_path / "a.ds"
    write(path, [1, 2], [2])
    with pytest.raises(ValueError, match="by one of"):
        sh.RawTokensDeserializer(path, "uint32")
    with pytest.raises(ValueError, match="by one of"):
        sh.RawTokensDeserializer(path, "uint32", 4, end_of_document=0)
    with pytest.raises(ValueError, match="dtype is needed"):
        sh.RawTokensDeserializer(path, sequence_length=4)
    with pytest.raises(ValueError, match="1 files of tokens and 2 of offsets"):
        sh.RawTokensDeserializer(path, "uint32", offsets=[f"{path}.index", path])
    np.array([3], np.uint8).tofile(f"{path}.index")
    with pytest.raises(sh.DataError, match="1 are left over"):
        documents(sh.RawTokensDeserializer(path, "uint32", offsets=".index"))
