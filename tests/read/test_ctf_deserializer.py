"""Files in CNTK's text format through a source."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import sweephand as sh

STREAMS = sh.StreamDefs(
    query=sh.StreamDef(field="Q", shape=20, is_sparse=True),
    label=sh.StreamDef(field="L", shape=2),
)


def write(path: Path, num_sequences: int, first_id: int = 0) -> Path:
    """Write sequences of 1 to 4 lines whose label is (id, line)."""
    lines = []
    for number in range(first_id, first_id + num_sequences):
        query = f"|Q {number % 20}:1 {(number + 7) % 20}"
        lines += [f"{number}\t{query}:{n}.5 |L {number} {n}" for n in range(1 + number % 4)]
    path.write_text("\n".join(lines) + "\n")
    return path


def labels(source: sh.MinibatchSource, size: int = 10) -> list[tuple[str, list[list[float]]]]:
    found = []
    for minibatch in source.minibatches(size):
        sequences = minibatch["label"].as_sequences()
        found += list(zip(minibatch.ids, (one.tolist() for one in sequences), strict=True))
    return found


def test_a_chunk_without_a_sparse_value_is_sparse_too(tmp_path: Path) -> None:
    path = tmp_path / "a.ctf"
    path.write_text("0 |Q |L 1 2\n1 |Q 3:1.5 |L 1 2\n2 |Q |L 3 4\n")
    corpus = sh.CTFDeserializer(path, STREAMS, chunk_size_in_bytes=1)
    source = sh.MinibatchSource(corpus, randomize=False)
    assert len(source.timeline.corpus.chunk_sequences) == 3
    for size, sums in ((3, [0, 1.5, 0]), (1, [0])):
        dense = source.next_minibatch(size)["query"].asarray()
        assert dense.shape == (size, 20)
        assert dense.sum(axis=1).tolist() == sums


def test_small_files_share_a_chunk_and_large_ones_are_cut(tmp_path: Path) -> None:
    shards = [write(tmp_path / f"{n}.ctf", 3, first_id=3 * n) for n in range(8)]
    (tmp_path / "8.ctf").write_text("|Q 1:1 |L 24 0\n|Q 1:x |L 25 0\n|Q 1:1 |L 26 0")
    write(tmp_path / "9.ctf", 60, first_id=27)
    size = shards[0].stat().st_size
    corpus = sh.CTFDeserializer(
        tmp_path / "*.ctf", STREAMS, chunk_size_in_bytes=4 * size + size // 2
    )
    source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, max_errors=1)
    chunks = source.timeline.corpus.chunk_sequences.tolist()
    assert chunks[:3] == [9, 9, 9]  # of three files each
    assert len(chunks) > 5
    assert sum(chunks) == 3 * 9 + 60
    found = labels(source)
    served = [values[0][0] for _, values in found if values]
    assert served == [number for number in range(87) if number != 25]
    assert source.errors[0].line == 2
    assert source.errors[0].file == str(tmp_path / "8.ctf")
    with (tmp_path / "3.ctf").open("r+b") as file:
        file.write(b"9")
    source.current_position = 0
    with pytest.raises(sh.StaleError, match=r"3\.ctf"):
        labels(source)


def test_ids_join_files(tmp_path: Path) -> None:
    path = write(tmp_path / "train.ctf", 6)
    numbers = np.arange(6)[::-1].copy()
    features = sh.ArrayDeserializer({"x": numbers * 10.0}, ids=numbers)
    source = sh.MinibatchSource(
        [sh.CTFDeserializer(path, STREAMS), features], randomize=False, max_sweeps=1
    )
    minibatch = source.next_minibatch(100)
    first = [one[0][0] for one in minibatch["label"].as_sequences()]
    assert (np.array(first) * 10 == minibatch["x"].values).all()


def test_what_a_stream_does_not_say_is_told_by_the_file(tmp_path: Path) -> None:
    path = tmp_path / "train.ctf"
    path.write_text("0 |A 1 2 |S 3:1\n0 |S 9:1 5:1\n1 |A 3 4 |S 2:1\n")
    streams = sh.StreamDefs(
        A=sh.StreamDef(dtype="float64"),
        s=sh.StreamDef(field="S", is_sparse=True, defines_mb_size=True),
    )
    source = sh.MinibatchSource(sh.CTFDeserializer(path, streams), randomize=False)
    assert (source.streams.A.shape, source.streams.A.dtype) == ((2,), np.float64)
    assert source.streams.s.shape == (10,)
    assert source.next_minibatch(2)["s"].as_sequences()[0].toarray()[1, [5, 9]].tolist() == [
        1,
        1,
    ]
    assert list(sh.MinibatchSource(sh.CTFDeserializer(path, ["S"])).streams) == ["S"]
    with pytest.raises(sh.DataError, match="no field 'a', there are: A, S"):
        sh.CTFDeserializer(path, sh.StreamDefs(a=sh.StreamDef()))
    with pytest.raises(sh.DataError):
        sh.MinibatchSource(sh.CTFDeserializer(path, sh.StreamDefs(a=sh.StreamDef(shape=2))))


def test_the_largest_index_of_all_files_is_the_dimension(tmp_path: Path) -> None:
    for number, index in enumerate((7, 40, 3)):
        (tmp_path / f"{number}.ctf").write_text(f"0 |S 1:1 |E\n1 |S {index}:1 0:1 |E\n")
    streams = {name: sh.StreamDef(is_sparse=True) for name in "SE"}
    for _ in range(2):  # without an index, and with one
        source = sh.MinibatchSource(sh.CTFDeserializer(tmp_path / "*.ctf", streams))
        assert source.streams.S.shape == (41,)
        assert source.streams.E.shape == (1,)
    declared = sh.StreamDefs(S=sh.StreamDef(shape=2**31 - 1, is_sparse=True))
    source = sh.MinibatchSource(sh.CTFDeserializer(tmp_path / "0.ctf", declared))
    assert source.streams.S.shape == (2**31 - 1,)


@pytest.mark.parametrize("index", ["auto", None])
def test_what_follows_from_an_item_is_listed_and_not_counted(
    tmp_path: Path, index: Literal["auto"] | None
) -> None:
    """Of a line, and of a sequence by one of its lines; through an index that is kept too."""
    lines = ["1 |Q 1:1 |L 1 2", "2 |Q 20:1 |L x 2", "3 |Q x |L 1 2", "3 |Q 1:1", "4 |Q |L 1 y"]
    path = tmp_path / "bad.ctf"
    path.write_text("".join(f"{line}\n" for line in [*lines, "5 |Q 1:1 |L 3 4"]))
    for _ in range(2):
        corpus = sh.CTFDeserializer(path, STREAMS, index=index)
        source = sh.MinibatchSource(corpus, max_errors=3, max_sweeps=1)
        assert len(source.errors) > 6
