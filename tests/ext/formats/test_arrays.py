"""HDF5 files and Zarr stores: which arrays are streams, what they hold, and what is refused."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.extent import sample
from tests.read.rows import rows

import sweephand as sh

Write = Callable[[Path, dict[str, Any]], Path]


def write_hdf5(path: Path, arrays: dict[str, Any], **options: Any) -> Path:
    h5py = pytest.importorskip("h5py")
    path = path.with_suffix(".h5")
    with h5py.File(path, "w", **options) as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def write_zarr(path: Path, arrays: dict[str, Any], **options: Any) -> Path:
    zarr = pytest.importorskip("zarr")
    path = path.with_suffix(".zarr")
    group = zarr.open_group(path, mode="w", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # texts of a fixed width are no standard
        for name, values in arrays.items():
            group.create_array(name, data=np.asarray(values))
    return path


def write_zarr_2(path: Path, arrays: dict[str, Any]) -> Path:
    return write_zarr(path, arrays, zarr_format=2)


@pytest.fixture(params=[write_hdf5, write_zarr, write_zarr_2], ids=lambda one: one.__name__)
def write(request: pytest.FixtureRequest) -> Write:
    return request.param  # type: ignore[no-any-return]


def made(path: Path, *streams: Any, **options: Any) -> sh.Deserializer:
    make = sh.HDF5Deserializer if path.suffix == ".h5" else sh.ZarrDeserializer
    return make(path, *streams, **options)  # type: ignore[no-any-return, operator]


def test_all_arrays_with_as_many_sequences_as_the_largest_are_told(
    write: Write, tmp_path: Path
) -> None:
    path = write(
        tmp_path / "a",
        {"train/x": np.zeros((3, 4)), "train/y": [1, 2, 3], "test/x": np.zeros((2, 4))},
    )
    with pytest.warns(UserWarning, match=r"'test/x': has 2 rows, 'train/x' has 3"):
        corpus = sh.open(path)
    assert [row["train/y"] for row in rows(corpus)] == [[1], [2], [3]]
    assert rows(made(path, ["test/x"])) == [{"test/x": [[0.0] * 4]}] * 2


def test_an_array_that_is_not_there_is_told_with_those_that_are(
    write: Write, tmp_path: Path
) -> None:
    path = write(tmp_path / "a", {"in/x": [1], "y": [2]})
    for name in ("z", "in"):
        with pytest.raises(sh.DataError, match=rf"'{name}' is not there, there are") as caught:
            rows(made(path, [name]))
        assert caught.value.stream == name


def test_arrays_of_unequal_lengths_are_refused(write: Write, tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"x": [1, 2], "y": [1, 2, 3]})
    with pytest.raises(sh.DataError, match="differ in their number of sequences: x 2, y 3"):
        rows(made(path, ["x", "y"]))


def test_offsets_make_sequences_of_rows(write: Write, tmp_path: Path) -> None:
    arrays = {"x": np.arange(6), "y": [[1], [2], [3], [4], [5], [6]], "z": [7, 8, 9]}
    path = write(tmp_path / "a", {**arrays, "at": [0, 3, 4, 6], "y_offsets": [0, 3, 4, 6]})
    assert rows(made(path, offsets={"x": "at"})) == [
        {"x": [0, 1, 2], "y": [[1], [2], [3]], "z": [7]},
        {"x": [3], "y": [[4]], "z": [8]},
        {"x": [4, 5], "y": [[5], [6]], "z": [9]},
    ]


@pytest.mark.parametrize("offsets", [[0, 2, 1, 4], [0, 1, 2, 9], [1, 1, 2, 4], [0.0, 4.0]])
def test_offsets_that_do_not_fit_are_refused(
    write: Write, tmp_path: Path, offsets: list[Any]
) -> None:
    path = write(tmp_path / "a", {"x": [1, 2, 3, 4], "x_offsets": offsets})
    with pytest.raises(sh.DataError, match="its offsets") as caught:
        rows(made(path, {"x": sh.StreamDef()}))
    assert caught.value.stream == "x"


def test_numbers_and_texts_come_as_they_are(write: Write, tmp_path: Path) -> None:
    arrays = {
        "half": np.array([0.5, 1], np.float16),
        "big": np.array([1, 2], ">i4"),
        "flag": np.array([True, False]),
        "text": np.array([b"ab", b"c"]),
    }
    found = rows(sh.open(write(tmp_path / "a", arrays)))
    assert found == [
        {"big": [1], "flag": [True], "half": [0.5], "text": [b"ab"]},
        {"big": [2], "flag": [False], "half": [1.0], "text": [b"c"]},
    ]


def test_what_is_neither_numbers_nor_text_is_left_out(write: Write, tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"c": np.array([1j, 2j]), "x": [1, 2]})
    with pytest.warns(UserWarning, match="'c': it holds complex128"):
        assert rows(sh.open(path)) == [{"x": [1]}, {"x": [2]}]
    with pytest.raises(sh.DataError, match="'c' cannot be served: it holds complex128"):
        rows(made(path, ["c"]))


def test_several_must_agree_in_type_or_are_read_as_a_declared_one(
    write: Write, tmp_path: Path
) -> None:
    # Together they have as many bytes as three numbers of the declared type.
    for name, values in (("a", np.array([1, 2], "i2")), ("b", np.array([3], "i8"))):
        path = write(tmp_path / name, {"x": values})
    with pytest.raises(sh.DataError, match="all files of a corpus must agree"):
        rows(sh.open(tmp_path))
    corpus = sh.open(f"{tmp_path}/*{path.suffix}", sh.StreamDefs(x=sh.StreamDef(dtype="int32")))
    assert rows(corpus) == [{"x": [1]}, {"x": [2]}, {"x": [3]}]


def test_rows_of_any_length_are_sequences_or_bytes(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, kind in (("x", "f4"), ("picture", "u1")):
            stored = file.create_dataset(name, 3, h5py.vlen_dtype(kind))
            stored[0], stored[2] = np.arange(3, dtype=kind), np.arange(1, dtype=kind)
    path = tmp_path / "a.h5"
    assert rows(made(path, ["picture"])) == [
        {"picture": [one]} for one in (b"\0\1\2", b"", b"\0")
    ]
    streams = {"x": sh.StreamDef(), "picture": sh.StreamDef(dtype="int16")}
    with pytest.raises(sh.DataError, match="no sample in any stream"):
        rows(made(path, streams))
    assert rows(made(path, streams), max_errors=1) == [
        {"x": [0.0, 1.0, 2.0], "picture": [0, 1, 2]},
        {"x": [0.0], "picture": [0]},
    ]


def test_sequences_without_samples_are_passed_over_in_place(tmp_path: Path) -> None:
    path = write_hdf5(
        tmp_path / "a", {"x": [5, 6, 7], "x_offsets": [0, 1, 1, 3], "y": [1, 2, 3]}
    )
    streams = {"x": sh.StreamDef(defines_mb_size=True), "y": sh.StreamDef()}
    found = rows(made(path, streams), max_errors=1)
    assert found == [{"x": [5], "y": [1]}, {"x": [6, 7], "y": [3]}]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (2, 2)},
        {"chunks": (2, 3), "compression": "gzip", "shuffle": True, "fletcher32": True},
        {"chunks": (3, 3), "fillvalue": 7},
    ],
    ids=str,
)
@pytest.mark.parametrize("block", [0, 512])
def test_every_layout_gives_the_same(
    tmp_path: Path, options: dict[str, Any], block: int
) -> None:
    h5py = pytest.importorskip("h5py")
    values = np.arange(21).reshape(7, 3)
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=block) as file:
        data = file.create_dataset("x", (7, 3), "i8", **options)
        data[:6] = values[:6]
        if "fillvalue" not in options:
            data[6] = values[6]
        else:  # the chunk is not there
            values[6] = 7
    for choice in ({}, {"randomization_window_in_chunks": 2, "randomize": True}):
        found = rows(sh.open(path), **choice)
        assert sorted(row["x"][0] for row in found) == sorted(values.tolist())


def test_a_file_that_changes_is_stale(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    values = np.arange(100)
    for name, filters in (("bare", {}), ("packed", {"compression": "gzip"})):
        path = tmp_path / f"{name}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=values, **filters)
        with sh.MinibatchSource(sh.open(path), num_threads=0) as source:
            with h5py.File(path, "a") as file:  # we hold no lock
                file["x"][3] = 7
                file["more"] = values
            with pytest.raises(sh.StaleError):
                source.next_minibatch(4)


def test_a_chunk_that_is_damaged_loses_its_own_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sweephand.ext.formats import array_units

    monkeypatch.setattr(array_units, "_UNIT_BYTES", 1)
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", data=np.arange(8), chunks=(2,), fletcher32=True)
        place = data.id.get_chunk_info(1).byte_offset
    with path.open("r+b") as raw:
        raw.seek(place)
        raw.write(b"\xff")
    with pytest.raises(sh.DataError, match="it cannot be read"):
        rows(sh.open(path))
    assert rows(sh.open(path), max_errors=1) == [{"x": [n]} for n in (0, 1, 4, 5, 6, 7)]


def test_any_byte_of_a_chunk_with_a_checksum_that_is_flipped_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sweephand.ext.formats import array_units

    monkeypatch.setattr(array_units, "_UNIT_BYTES", 1)
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    checksum = zarr.codecs.Crc32cCodec()
    group.create_array("x", data=np.arange(1, 7), chunks=(2,), compressors=[checksum])
    chunk = tmp_path / "a.zarr" / "x" / "c" / "1"
    whole = chunk.read_bytes()
    for place in sample(range(len(whole)), 64):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        chunk.write_bytes(flipped)
        with pytest.raises(sh.DataError, match="it cannot be read"):
            rows(sh.open(tmp_path / "a.zarr"))
        found = rows(sh.open(tmp_path / "a.zarr"), max_errors=1)
        assert found == [{"x": [n]} for n in (1, 2, 5, 6)]


def test_texts_of_any_length_of_zarr_are_bytes(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("t", shape=2, dtype=str)[:] = np.array(["é", ""], object)
    assert rows(sh.open(tmp_path / "a.zarr")) == [{"t": ["é".encode()]}, {"t": [b""]}]


def test_a_store_whose_metadata_change_is_stale(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    path = write_zarr(tmp_path / "a", {"x": np.arange(5)})
    with sh.MinibatchSource(sh.open(path), num_threads=0) as source:
        zarr.open_group(path).attrs["changed"] = True
        with pytest.raises(sh.StaleError, match="the metadata of the store changed"):
            source.next_minibatch(4)


@pytest.mark.parametrize("write", [write_zarr, write_zarr_2])
def test_a_chunk_of_a_store_that_is_written_again_is_stale(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    zarr = pytest.importorskip("zarr")
    path = write(tmp_path / "a", {"x": np.arange(5)})
    corpus = sh.open(path)
    assert len(rows(corpus)) == 5
    zarr.open_group(path, mode="r+")["x"][2] = 47
    with pytest.raises(sh.StaleError, match="changed since it was first read"):
        rows(corpus)
    assert rows(sh.open(path))[2] == {"x": [47]}


def test_a_fifo_in_place_of_a_chunk_of_a_store_is_refused(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "a", {"x": np.arange(5)})
    chunk = path / "x" / "c" / "0"
    chunk.unlink()
    os.mkfifo(chunk)
    with pytest.raises(sh.DataError, match="not a regular file"):
        rows(sh.open(path))


def test_a_store_of_a_url_is_recognised(tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    path = write_zarr(tmp_path / "a", {"x": [1, 2]})
    for file in path.rglob("*"):
        if file.is_file():
            memory.pipe(f"/arrays/a.zarr/{file.relative_to(path)}", file.read_bytes())
    try:
        for url in ("memory://arrays/a.zarr", "memory://arrays"):
            assert rows(sh.open(url)) == [{"x": [1]}, {"x": [2]}]
    finally:
        memory.rm("/arrays", recursive=True)
