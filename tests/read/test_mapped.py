"""Files that are mapped into memory give what files that are read give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.read.format_corpora import TOKENS, varied, write_megatron

import sweephand as sh


def tokens(deserializer: sh.Deserializer) -> list[list[int]]:
    with sh.MinibatchSource(deserializer, max_sweeps=2, num_lanes=3) as source:
        return [
            one.tolist()
            for batch in source.minibatches(20)
            for one in batch["tokens"].as_sequences()
        ]


@pytest.mark.parametrize("dtype", ["uint16", "int64"])
def test_mapped_files_are_read_as_others(tmp_path: Path, dtype: str) -> None:
    for number, part in enumerate(varied().parts(3)):
        write_megatron(tmp_path / f"part-{number}", part.tokens)
    pairs = [str(tmp_path / "part-*"), TOKENS]
    np.arange(40_003).astype(dtype).tofile(tmp_path / "raw.bin")
    (tmp_path / "empty.bin").touch()
    raw = [[tmp_path / "raw.bin", tmp_path / "empty.bin"], dtype, 7]
    for make, arguments in ((sh.MegatronDeserializer, pairs), (sh.RawTokensDeserializer, raw)):
        assert tokens(make(*arguments, mapped=True)) == tokens(make(*arguments))


def test_a_mapped_file_that_was_replaced_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    np.arange(1000, dtype=np.uint16).tofile(path)
    corpus = sh.RawTokensDeserializer(path, "uint16", 10, mapped=True)
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "new.bin")
    (tmp_path / "new.bin").replace(path)
    with pytest.raises(sh.StaleError, match=r"a\.bin"):
        sh.MinibatchSource(corpus).next_minibatch(10)


def test_more_mapped_files_than_may_be_open_are_read(tmp_path: Path) -> None:
    for number in range(300):
        np.full(4, number, np.uint16).tofile(tmp_path / f"{number:03}.bin")
    corpus = sh.RawTokensDeserializer(str(tmp_path / "*.bin"), "uint16", 4, mapped=True)
    assert sorted(tokens(corpus)) == sorted([[n] * 4 for n in range(300)] * 2)
