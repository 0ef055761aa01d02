"""Lines in gzip and zstd: members and frames, what is damaged, and how much is unpacked."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh
from sweephand.deserializers.units import line_units
from sweephand.files import inflate
from sweephand.files.inflate import InflatedFile, InflatedStream, ZstdFrame

Pack = Callable[[bytes], bytes]


def zstd(content: bytes) -> bytes:
    library = pytest.importorskip("zstandard")
    packed: bytes = library.ZstdCompressor(write_checksum=True).compress(content)
    return packed


PACKS: dict[str, Pack] = {"gzip": gzip.compress, "zstd": zstd}


@pytest.fixture(params=PACKS)
def pack(request: pytest.FixtureRequest) -> Pack:
    found = PACKS[str(request.param)]
    found(b"")  # skips where the library is not there
    return found


def lines(first: int, count: int) -> bytes:
    return b"".join(
        b'{"n": %d, "text": "%060d"}\n' % (n, n) for n in range(first, first + count)
    )


def numbers(corpus: sh.Deserializer, **options: Any) -> list[int]:
    options = {"randomize": False, "max_sweeps": 1, **options}
    with sh.MinibatchSource(corpus, **options) as source:
        return [n for one in source.minibatches(50) for n in one["n"].values.tolist()]


def test_a_part_is_read_without_what_lies_before_it(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_units, "UNIT_BYTES", 1 << 16)
    monkeypatch.setattr("sweephand.corpus.chunks.CHUNK_BYTES", 1 << 17)
    monkeypatch.setattr(inflate, "LEAST_MEMBER", 1 << 14)
    path = tmp_path / "a.jsonl"
    text = lines(0, 20_000)
    cuts = [*range(0, len(text), 90_001), len(text)]  # within lines
    parts = [text[begin:end] for begin, end in pairwise(cuts)]
    path.write_bytes(b"".join(map(pack, parts)))
    assert numbers(sh.JSONLDeserializer(path, ["n"])) == list(range(20_000))
    unpacked = []
    take = inflate.InflatedStream.take

    def watched(self: Any, size: int) -> bytes:
        found = take(self, size)
        unpacked.append(len(found))
        return found

    monkeypatch.setattr(inflate.InflatedStream, "take", watched)
    corpus = sh.JSONLDeserializer(path, ["n"])
    with sh.MinibatchSource(corpus, num_threads=0, randomize=False) as source:
        unpacked.clear()  # the first lines were, for their fields
        source.current_position = 15_000
        assert source.next_minibatch(1)["n"].values.tolist() == [15_000]
    assert sum(unpacked) < 500_000 < len(text)


def test_a_cut_file_is_an_error_and_its_whole_members_are_left(
    pack: Pack, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    first = pack(lines(0, 30))
    path.write_bytes((first + pack(lines(30, 30)))[:-3])
    with pytest.raises(sh.DataError, match="was cut, or is still being written") as caught:
        numbers(sh.JSONLDeserializer(path))
    assert caught.value.file == str(path)
    assert caught.value.offset is not None
    assert caught.value.offset >= len(first)
    assert numbers(sh.JSONLDeserializer(path), max_errors=1) == list(range(30))


def test_a_bomb_is_refused_and_takes_no_memory(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflate, "_FREE_BYTES", 1 << 20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(pack(b'{"n": 1}' + b" " * (8 << 20) + b"\n"))
    with pytest.raises(sh.DataError, match="is this a zip bomb"):
        numbers(sh.JSONLDeserializer(path, ["n"]))


@given(
    parts=st.lists(st.binary(max_size=3000), max_size=4),
    skippable=st.binary(max_size=40),
    step=st.integers(1, 700),
    size=st.integers(1, 5000),
)
def test_frames_come_in_pieces_of_any_size(
    parts: list[bytes], skippable: bytes, step: int, size: int
) -> None:
    pytest.importorskip("zstandard")
    note = b"\x5a\x2a\x4d\x18" + len(skippable).to_bytes(4, "little") + skippable
    content = note + b"".join(zstd(part) for part in parts) + note
    found = b""
    state = ZstdFrame()
    waiting = b""
    for begin in range(0, len(content), step):
        waiting += content[begin : begin + step]
        while True:
            part = state.decompress(waiting, size)
            assert len(part) <= size
            found += part
            waiting = state.unused_data if state.eof else state.unconsumed_tail
            if state.eof and waiting:
                state = ZstdFrame()
            elif not part:
                break
    assert found == b"".join(parts)
    assert state.eof


def test_a_frame_of_cntk_text_is_unpacked_once_in_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zstandard = pytest.importorskip("zstandard")
    lines = [b"%d |x %d\n" % (n, n) for n in range(60000)]
    parts = b"".join(lines[:20000]), b"".join(lines[20000:])
    path = tmp_path / "a.ctf"
    path.write_bytes(b"".join(map(zstandard.compress, parts)))
    streams = {"x": sh.StreamDef(shape=1)}
    corpus = sh.CTFDeserializer(path, streams, chunk_size_in_bytes=5000)
    sh.MinibatchSource(corpus).close()
    opened = []
    open_at = InflatedFile.open

    def count(self: InflatedFile, offset: int = 0, **options: Any) -> InflatedStream:
        opened.append(offset)
        return open_at(self, offset, **options)

    monkeypatch.setattr(InflatedFile, "open", count)
    with sh.MinibatchSource(corpus, max_sweeps=1) as source:
        found = [n for one in source.minibatches(64) for n in one["x"].values[:, 0].tolist()]
    assert sorted(found) == list(range(60000))
    assert found != sorted(found)
    assert len(opened) == 2
    assert len(parts[0]) <= max(opened) < len(parts[0]) + 5000
