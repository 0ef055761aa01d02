"""An index that lies is built again or refused: no crash, no hang, no other values."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import extent
from tests.read.format_corpora import (
    OPEN,
    Corpus,
    Make,
    arrow_files,
    cbf,
    ctf,
    ctf_in_gzip,
    htk,
    jsonl,
    jsonl_in_gzip,
    mlf,
    parquet,
    tfrecords,
    tfrecords_in_gzip,
    webdataset,
)

import sweephand as sh
from sweephand import _core
from sweephand.ext.tfds.records import _check_frames, _find_frames
from sweephand.files import index_file
from sweephand.files.find import find_files
from sweephand.files.index_content import INDEX
from sweephand.run.records import pack_block, whole_blocks

INDEXED = [
    ctf,
    ctf_in_gzip,
    jsonl,
    jsonl_in_gzip,
    tfrecords,
    tfrecords_in_gzip,
    parquet,
    arrow_files,
    webdataset,
    htk,
    mlf,
    cbf,
]

IN_PLACE = [webdataset, mlf]
"""Formats whose index says where values lie, or holds them, and is believed."""

each_format = pytest.mark.parametrize("make", INDEXED, ids=lambda make: make.__name__)

DEEP = "deep"
"""Stands for lists in lists, which JSON reads by recursion."""

HOSTILE: list[Any] = [
    *(None, True, -1, 0, 1, 2**31, 2**40, 2**63, 2**70, -(2**63), 0.5, 1e308),
    *("", "x", "\x1b[2J", "<i8", "|O", "float128", [], {}, [None], [[]], {"a": 1}, DEEP),
]


def some(items: list[Any], count: int, seed: int) -> list[Any]:
    """Some of these, other ones for every seed."""
    if extent.exhaustive or len(items) <= count:
        return items
    chosen = np.random.default_rng(seed).choice(len(items), count, replace=False)
    return [items[number] for number in chosen]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def small() -> Corpus:
    return Corpus.of_lengths([3, 1, 4, 2, 3, 5])


def delivered(folder: Path, make: Make, layout: Any = None) -> list[list[int]]:
    with sh.MinibatchSource(
        OPEN[make](folder), randomize=False, max_sweeps=1, num_threads=0, layout=layout
    ) as source:
        return [
            one.reshape(-1).tolist()
            for batch in source.minibatches(7)
            for one in batch["tokens"].as_sequences()
        ]


def unpack(content: bytes, count: int) -> np.ndarray[Any, Any]:
    packed = _core.index.PackedIntegers(np.frombuffer(content, np.uint8), count)
    return packed.read(0, count, 3)


class Index:
    """An index file that is taken apart, and written again with checksums that fit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        content = memoryview(path.read_bytes())
        header, *blocks = whole_blocks(content, len(INDEX.head))
        self.header = json.loads(bytes(header.payload(content)))
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.packed: dict[str, bytes] = {}
        for block, (name, one) in zip(blocks, self.header["arrays"].items(), strict=True):
            count = int(np.prod(one["shape"]))
            stored = bytes(block.payload(content))
            if one["packed"]:  # here all are as they were
                self.packed[name] = stored
                stored = unpack(stored, count).astype(one["dtype"]).tobytes()
                one["packed"] = None
            self.arrays[name] = np.frombuffer(stored, one["dtype"]).reshape(one["shape"])

    def write_packed(self, name: str, content: bytes) -> None:
        """Write the same with other bytes of an array that is packed."""
        header = json.loads(json.dumps(self.header))
        header["arrays"][name]["packed"] = len(content)
        self.write(header, {**self.arrays, name: np.frombuffer(content, np.uint8)})

    def write(self, header: Any = None, arrays: dict[str, Any] | None = None) -> None:
        """Write the same with another header, or with other arrays."""
        header = json.loads(json.dumps(self.header)) if header is None else header
        text = json.dumps(header).replace(f'"{DEEP}"', "[" * 200_000 + "]" * 200_000).encode()
        blocks = [(b"", text)]
        blocks += [(name.encode(), a.tobytes()) for name, a in (arrays or self.arrays).items()]
        packed = b"".join(pack_block(label, payload) for label, payload in blocks)
        self.path.write_bytes(INDEX.head + packed)


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, but of a long list only the first and the last."""
    yield path
    if isinstance(value, dict):
        for name, one in value.items():
            yield from paths_in(one, (*path, name))
    elif isinstance(value, list):
        for number in sorted({0, len(value) - 1} & set(range(len(value)))):
            yield from paths_in(value[number], (*path, number))


def with_value(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value(value[path[0]], path[1:], new)
    return copy


@pytest.fixture
def forge(tmp_path: Path, make: Make) -> tuple[Index, Callable[[object], None]]:
    make(tmp_path, small())
    for path in sorted(tmp_path.iterdir())[2:]:
        path.unlink()
    whole = delivered(tmp_path, make)
    (path,) = tmp_path.glob(".sweephand/*.sweephand-index")
    index = Index(path)
    index.write()
    same = path.stat()
    assert delivered(tmp_path, make) == whole
    assert path.stat().st_mtime_ns == same.st_mtime_ns, "it is read as it was taken apart"

    tokens = [token for one in whole for token in one]
    layouts = cycle([None, sh.Packed(4, split_long="split", look_ahead=1)])

    def check(what: object) -> None:
        try:
            found = delivered(tmp_path, make, next(layouts))
        except sh.DataError:
            return
        except ValueError as error:  # a corpus of such sizes has no rows
            if "sequences have one sample each" not in str(error):
                raise
            return
        if make in IN_PLACE:
            return
        # Splitting cuts the same tokens in other places.
        assert [token for one in found for token in one] == tokens, what

    return index, check


@each_format
def test_no_value_of_the_header_does_harm(make: Make, forge: Any) -> None:
    index, check = forge
    for seed, path in extent.sample(list(enumerate(paths_in(index.header))), 24):
        for value in some(HOSTILE, 2, seed):
            index.write(with_value(index.header, path, value))
            check((path, value))


@each_format
def test_no_value_of_an_array_does_harm(make: Make, forge: Any) -> None:
    index, check = forge
    for seed, (name, array) in enumerate(index.arrays.items()):
        most = np.iinfo(array.dtype).max
        for value in some([0, 1, 2, 1000, most // 2, most], 3, seed):
            for places in (slice(0, 1), slice(-1, None), slice(None)):
                forged = array.copy()
                forged[places] = value
                if not np.array_equal(forged, array):
                    index.write(arrays={**index.arrays, name: forged})
                    check((name, value, places))


@each_format
def test_no_packed_numbers_do_harm(make: Make, forge: Any) -> None:
    index, check = forge
    random = np.random.default_rng(0)
    for name, content in index.packed.items():
        index.write_packed(name, content)
        check(name)
        index.write_packed(name, content[:-1])
        check((name, "cut"))
        for _ in range(200 if extent.exhaustive else 6):
            place, bit = int(random.integers(len(content))), int(random.integers(8))
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            index.write_packed(name, bytes(flipped))
            check((name, place, bit))


def test_frames_that_do_not_fill_a_file_are_found_again(tmp_path: Path) -> None:
    sh.tfrecord.write(tmp_path / "a.tfrecord", [{"x": [number]} for number in range(5)])
    files = find_files(tmp_path / "a.tfrecord").files

    def load() -> list[int]:
        found = index_file.load_index(
            files, {"format": "frames"}, _find_frames, check=_check_frames
        )
        return found.arrays["offsets"].tolist()  # type: ignore[no-any-return]

    whole = load()
    (path,) = tmp_path.glob(".sweephand/*.sweephand-index")
    index = Index(path)
    offsets = index.arrays["offsets"]
    for place in range(len(offsets)):
        for value in (0, offsets[place] + 1, 2**64 - 1):
            forged = offsets.copy()
            forged[place] = value
            index.write(arrays={"offsets": forged})
            assert (load() == whole) or place not in (0, len(offsets) - 1)
            index.path.unlink()


def test_an_index_of_another_user_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "data"
    data.mkdir()
    jsonl(data, small())
    whole = delivered(data, jsonl)
    (path,) = data.glob(".sweephand/*.sweephand-index")
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        monkeypatch.setattr(index_file, "_trusted_owners", lambda _: {0, 12345})
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    forged = path.stat()
    assert delivered(data, jsonl) == whole
    assert path.stat().st_mtime_ns == forged.st_mtime_ns, "it is left as it is"
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_the_owner_of_the_data_may_keep_an_index(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    jsonl(tmp_path, small())
    delivered(tmp_path, jsonl)
    (path,) = tmp_path.glob(".sweephand/*.sweephand-index")
    for one in (path, *tmp_path.glob("*.jsonl")):
        os.chown(one, 12345, 12345)
    index = index_file.read_index(path, Index(path).header["meaning"], {0, 12345})
    assert index is not None
    before = path.stat().st_mtime_ns
    delivered(tmp_path, jsonl)
    assert path.stat().st_mtime_ns == before
