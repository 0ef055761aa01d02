"""The demonstration's look at another format and another layout tells the truth."""

from pathlib import Path

import numpy as np

from sweephand.demo.library_text import LibraryText
from sweephand.demo.second_kind import fills, first_functions, same_minibatches, write_records


def some_functions(count: int) -> LibraryText:
    rng = np.random.default_rng(1)
    lengths = np.clip(rng.lognormal(5, 1, count), 1, 3000).astype(np.int64)
    offsets = np.append(0, np.cumsum(lengths))
    tokens = rng.integers(0, 256, offsets[-1], dtype=np.uint8)
    return LibraryText(tokens, offsets, [f"f{n}" for n in range(count)])


def test_records_give_the_minibatches_of_memory_until_one_byte_differs(tmp_path: Path) -> None:
    corpus = some_functions(300)
    assert write_records(corpus, tmp_path / "x.tfrecord") == 300
    count, same = same_minibatches(corpus, tmp_path / "x.tfrecord", size=4096, seed=5)
    assert same
    assert count > len(corpus.tokens) // 4096
    corpus.tokens[1000] ^= 1
    assert not same_minibatches(corpus, tmp_path / "x.tfrecord", size=4096, seed=5)[1]


def test_packed_rows_are_fuller_than_padded_minibatches() -> None:
    padded, packed = fills(some_functions(20_000), seed=0).values()
    assert padded < 0.2
    assert packed > 0.97


def test_the_first_functions_are_those_of_the_corpus() -> None:
    corpus = some_functions(20)
    part = first_functions(corpus, 7)
    assert part.names == corpus.names[:7]
    assert part.offsets.tolist() == corpus.offsets[:8].tolist()
    assert len(part.tokens) == corpus.offsets[7]
    assert first_functions(corpus, 100).names == corpus.names
