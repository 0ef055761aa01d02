"""One damaged item in every format, under every layout: an error, or skipped in its place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.read.format_corpora import CTF_STREAMS, TOKENS, Corpus
from tests.read.written import write_megatron

import sweephand as sh

BAD = 13  # the damaged sequence
SIZES = [1 if n == BAD else 1 + 7 * n % 9 for n in range(30)]
CORPUS = Corpus.of_lengths(SIZES)

LAYOUTS: dict[str, sh.Layout] = {
    "ragged": sh.Ragged(),
    "padded": sh.Padded(),
    "left": sh.Padded(side="left"),
    "bucketed": sh.Bucketed([2, 4, 9]),
    "packed": sh.Packed(12),
    "split": sh.Packed(4, split_long="split"),
    "bptt": sh.TruncatedBPTT(3),
    "frames": sh.Frames(),
}


def jsonl(folder: Path, bad: int | None) -> sh.Deserializer:
    lines = [json.dumps({"tokens": one.tolist()}) for one in CORPUS.tokens]
    if bad is not None:
        lines[bad] = lines[bad].replace("]", "?")
    (folder / "x.jsonl").write_text("\n".join(lines) + "\n")
    return OPEN[jsonl](folder)


def tfrecord(folder: Path, bad: int | None) -> sh.Deserializer:
    path = folder / "x.tfrecord"
    sh.tfrecord.write(path, [{"tokens": one} for one in CORPUS.tokens])
    if bad is not None:
        content = bytearray(path.read_bytes())
        at = 0
        for _ in range(bad):
            at += 16 + int.from_bytes(content[at : at + 8], "little")
        content[at + 14] ^= 1
        path.write_bytes(content)
    return OPEN[tfrecord](folder)


def ctf(folder: Path, bad: int | None) -> sh.Deserializer:
    texts = [
        sh.sequence_to_cntk_text_format(number, {"T": one[:, None]})
        for number, one in enumerate(CORPUS.tokens)
    ]
    if bad is not None:
        texts[bad] = texts[bad][:-1] + "x"
    (folder / "x.ctf").write_text("".join(f"{text}\n" for text in texts))
    return OPEN[ctf](folder)


def parquet(folder: Path, bad: int | None) -> sh.Deserializer:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows: list[Any] = [one.tolist() for one in CORPUS.tokens]
    if bad is not None:
        rows[bad] = None
    table = pa.table({"tokens": pa.array(rows, pa.list_(pa.int32()))})
    pq.write_table(table, folder / "x.parquet", row_group_size=4)
    return sh.ParquetDeserializer(folder / "x.parquet", TOKENS)


def megatron(folder: Path, bad: int | None) -> sh.Deserializer:
    write_megatron(folder / "x", CORPUS.tokens)
    if bad is not None:
        path = folder / "x.idx"
        content = bytearray(path.read_bytes())
        content[34 + 4 * bad : 38 + 4 * bad] = (-1).to_bytes(4, "little", signed=True)
        path.write_bytes(content)
    return sh.MegatronDeserializer(str(folder / "x"), TOKENS)


class Items:
    """A map-style dataset of which one item is no dict."""

    def __init__(self, bad: int | None) -> None:
        self.bad = bad

    def __len__(self) -> int:
        return len(SIZES)

    def __getitem__(self, number: int) -> object:
        return None if number == self.bad else {"tokens": CORPUS.tokens[number]}


def map_items(folder: Path, bad: int | None) -> sh.Deserializer:
    return sh.MapDeserializer(Items(bad), TOKENS, lengths=SIZES)


def measured_items(folder: Path, bad: int | None) -> sh.Deserializer:
    return sh.MapDeserializer(Items(bad), TOKENS)


class Chunks(sh.UserDeserializer):
    """Chunks of three sequences; the one that holds the damaged one lies about its lengths."""

    def __init__(self, bad: int | None) -> None:
        self.bad = bad

    def stream_infos(self) -> sh.StreamDefs:
        return TOKENS

    def num_chunks(self) -> int:
        return 10

    def chunk_infos(self) -> NDArray[np.int64]:
        return np.array([[3, sum(SIZES[3 * c : 3 * c + 3])] for c in range(10)])

    def sequence_lengths(self, chunk_id: int) -> list[int]:
        return SIZES[3 * chunk_id : 3 * chunk_id + 3]

    def get_chunk(self, chunk_id: int) -> dict[str, Any]:
        parts = [one.tolist() for one in CORPUS.tokens[3 * chunk_id : 3 * chunk_id + 3]]
        if self.bad is not None and self.bad // 3 == chunk_id:
            parts[-1] = [*parts[-1][:-1], 1, 1, 1]
        return {"tokens": parts}


def user(folder: Path, bad: int | None) -> sh.Deserializer:
    return Chunks(bad)


Damage = Callable[[Path, int | None], sh.Deserializer]
OPEN: dict[Damage, Callable[[Path], sh.Deserializer]] = {
    jsonl: lambda folder: sh.JSONLDeserializer(folder / "x.jsonl", TOKENS),
    tfrecord: lambda folder: sh.TFRecordDeserializer(folder / "x.tfrecord", TOKENS),
    ctf: lambda folder: sh.CTFDeserializer(
        folder / "x.ctf",
        sh.StreamDefs(tokens=CTF_STREAMS["tokens"]),
        chunk_size_in_bytes=200,
    ),
}
LOST: dict[Damage, list[int]] = {user: [12, 13, 14]}  # what goes with a damaged item
FORMATS: list[Damage] = [
    *(jsonl, tfrecord, ctf, parquet, megatron, map_items, measured_items, user),
]


def open_source(
    make: Damage, folder: Path, bad: int | None, layout: sh.Layout, **options: Any
) -> sh.MinibatchSource:
    wanted: dict[str, Any] = {"num_lanes": 3, "randomization_seed": 5, "max_sweeps": 2}
    return sh.MinibatchSource(make(folder, bad), layout=layout, **{**wanted, **options})


def delivered(source: sh.MinibatchSource, size: int = 24) -> list[tuple[str, list[int]]]:
    """Every piece with its id; of what was delivered the counts must be true."""
    found = []
    for minibatch in source.minibatches(size):
        pieces = [one.reshape(-1).tolist() for one in minibatch["tokens"].as_sequences()]
        assert minibatch.num_samples == sum(map(len, pieces)) <= minibatch.global_num_samples
        assert minibatch.num_sequences == len(minibatch.ids) == len(pieces)
        found += list(zip(minibatch.ids, pieces, strict=True))
    return found


def number_of(name: str) -> int:
    return int(name.partition("#")[0].rpartition("__")[2])


def without(found: list[tuple[str, list[int]]], lost: list[int]) -> list[Any]:
    return [one for one in found if number_of(one[0]) not in lost]


def frames_of(make: Damage, layout: sh.Layout) -> bool:
    return make in (map_items, measured_items) and isinstance(
        layout, sh.Frames
    )  # which are read in chunks


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_a_damaged_item_is_skipped_and_nothing_else_moves(
    make: Damage, layout: sh.Layout, tmp_path: Path
) -> None:
    if frames_of(make, layout):
        pytest.skip("items of a map-style dataset are no chunks")
    good = open_source(make, tmp_path, None, layout)
    whole = delivered(good)
    good.current_position = good.num_samples_per_sweep // 2
    state = good.get_checkpoint_state()
    good.close()

    lost = LOST.get(make, [BAD])
    with pytest.raises(sh.DataError):
        delivered(open_source(make, tmp_path, BAD, layout))
    with open_source(make, tmp_path, BAD, layout, max_errors=1) as source:
        assert delivered(source) == without(whole, lost)
        # In both sweeps; one of CTF's lists two that follow from it.
        assert len(source.errors) == (3 if make is ctf else 1)
        assert source.num_samples_per_sweep == sum(SIZES)
        source.restore_from_checkpoint(state)  # of before the damage
        rest = delivered(source)
        assert rest == without(whole, lost)[-len(rest) :]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("make", [jsonl, tfrecord, ctf], ids=lambda make: make.__name__)
def test_damage_that_the_index_does_not_know_keeps_its_size(
    make: Damage, layout: sh.Layout, tmp_path: Path
) -> None:
    bad = 11  # of several samples
    assert SIZES[bad] > 1
    with open_source(make, tmp_path, None, layout) as source:
        whole = delivered(source)
    (path,) = [one for one in tmp_path.iterdir() if one.name.startswith("x")]
    before = path.stat()
    make(tmp_path, bad)
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    damaged = OPEN[make](tmp_path)
    wanted: dict[str, Any] = {"num_lanes": 3, "randomization_seed": 5, "max_sweeps": 2}
    with pytest.raises(sh.DataError):
        delivered(sh.MinibatchSource(damaged, layout=layout, **wanted))
    with sh.MinibatchSource(damaged, layout=layout, max_errors=1, **wanted) as source:
        if make is ctf:  # its errors are known by the index: others mean another file
            with pytest.raises(sh.StaleError, match="build the index again"):
                delivered(source)
            return
        assert delivered(source) == without(whole, [bad])
        assert len(source.errors) == 1


@pytest.mark.parametrize("budget", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_another_file_of_the_same_size_and_time_is_stale(
    layout: sh.Layout, budget: int, tmp_path: Path
) -> None:
    """As many sequences as the index knows, of other sizes: some longer, some shorter."""
    path = tmp_path / "x.ctf"
    streams = sh.StreamDefs(tokens=sh.StreamDef(field="x", shape=1))

    def write(sizes: list[int]) -> None:
        lines = [f"{n} |x {n}\n" * size for n, size in enumerate(sizes)]
        path.write_text("".join(lines))

    write([1, 2, 3, 1, 3, 2])
    with sh.MinibatchSource(sh.CTFDeserializer(path, streams), layout=layout) as source:
        source.next_minibatch(24)
    before = path.stat()
    write([3, 2, 1, 2, 1, 3])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    options: dict[str, Any] = {"layout": layout, "max_sweeps": 1, "max_errors": budget}
    with sh.MinibatchSource(sh.CTFDeserializer(path, streams), **options) as source:
        with pytest.raises(sh.StaleError, match="samples"):
            delivered(source)
        assert len(source.errors) == budget
