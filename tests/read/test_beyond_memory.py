"""Lengths that a file says, and no memory holds, are damage with a place."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sweephand as sh
from sweephand import _core
from sweephand.files.local import stat_file

BEYOND = 1 << 42  # bytes: files have holes, which take no place on the disk


def end_at(path: Path, size: int) -> None:
    try:
        os.truncate(path, size)
    except OSError as error:
        pytest.skip(f"no file of 4 TiB is possible here: {error}")


def tar(folder: Path, beyond: int) -> Path:
    path = folder / "a.tar"
    with path.open("wb") as file:
        for number, size in enumerate((3, beyond, 5)):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = size
            file.write(member.tobuf(tarfile.GNU_FORMAT))
            end = file.tell() + (size + 511) // 512 * 512
            end_at(path, end)
            file.seek(end)
        file.write(bytes(1024))
    return path


def write_npy(path: Path, shape: tuple[int, ...]) -> Path:
    with path.open("wb") as file:
        head = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, head)
        begin = file.tell()
    end_at(path, begin + int(np.prod(shape, dtype=object)))
    return path


@pytest.fixture(autouse=True)
def _less_memory_than_that() -> None:
    if _core.read.physical_memory() > BEYOND // 4:
        pytest.skip("this machine has it")


WINDOWED = {"randomization_window_in_chunks": 2}


@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded()], ids=repr)
@pytest.mark.parametrize("options", [{}, WINDOWED], ids=["mapped", "windowed"])
def test_a_member_of_a_tar_archive_beyond_memory_is_damaged(
    tmp_path: Path, layout: sh.Layout, options: dict[str, int]
) -> None:
    corpus = sh.WebDatasetDeserializer(tar(tmp_path, BEYOND))
    with sh.MinibatchSource(corpus, randomize=False, layout=layout, num_threads=0) as source:
        assert len(source.next_minibatch(1)["txt"].as_sequences()[0][0]) == 3
        for _ in range(2):  # it stays usable
            with pytest.raises(sh.DataError, match="more than the memory") as caught:
                source.next_minibatch(1)
            assert caught.value.stream == "txt" or options
    with sh.MinibatchSource(
        corpus, randomize=False, layout=layout, num_threads=0, max_sweeps=1, max_errors=1
    ) as source:
        found = [
            len(one[0]) for mb in source.minibatches(1) for one in mb["txt"].as_sequences()
        ]
        assert found == [3, 5]
        assert [error.sequence for error in source.errors] == ["a.tar__1"]


def rows_beyond_memory(folder: Path) -> sh.Deserializer:
    return sh.NpyDeserializer({"x": write_npy(folder / "a.npy", (2, BEYOND))})


def tfrecord(folder: Path) -> sh.Deserializer:
    head = BEYOND.to_bytes(8, "little")
    checksum = _core.formats.mask_crc(_core.formats.crc32c(head)).to_bytes(4, "little")
    (folder / "a.tfrecord").write_bytes(head + checksum)
    end_at(folder / "a.tfrecord", BEYOND + 16)
    return sh.TFRecordDeserializer(folder / "a.tfrecord", ["x"])


def npz(folder: Path) -> sh.Deserializer:
    head = io.BytesIO()
    told = {"descr": "|u1", "fortran_order": False, "shape": (2, BEYOND)}
    np.lib.format.write_array_header_1_0(head, told)
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        archive.writestr("x.npy", head.getvalue() + b"abc")
    return sh.open(folder / "a.npz")


def npy_that_ends_early(folder: Path) -> sh.Deserializer:
    path = write_npy(folder / "a.npy", (2, BEYOND))
    os.truncate(path, 1000)
    return sh.NpyDeserializer({"x": path})


def hdf5(folder: Path) -> sh.Deserializer:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", (2, BEYOND), "u1", chunks=(1, 1 << 20))
    return sh.HDF5Deserializer(folder / "a.h5", ["x"])


def zarr(folder: Path) -> sh.Deserializer:
    pytest.importorskip("zarr")
    grid = {"name": "regular", "configuration": {"chunk_shape": [1, BEYOND]}}
    keys = {"name": "default"}
    told = {"zarr_format": 3, "node_type": "array", "shape": [2, BEYOND], "fill_value": 0}
    told |= {"data_type": "uint8", "chunk_grid": grid, "chunk_key_encoding": keys}
    told |= {"codecs": [{"name": "bytes"}]}
    (folder / "zarr.json").write_text(json.dumps(told))
    return sh.ZarrDeserializer(folder)


MAKERS = [rows_beyond_memory, npy_that_ends_early, tfrecord, npz, hdf5, zarr]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_length_beyond_memory_is_an_error_with_a_place(
    tmp_path: Path, make: Callable[[Path], sh.Deserializer]
) -> None:
    with pytest.raises(sh.DataError) as caught:  # noqa: SIM117
        with sh.MinibatchSource(make(tmp_path), randomize=False, num_threads=0) as source:
            source.next_minibatch(1)
    assert caught.value.file or caught.value.stream


def test_a_range_beyond_memory_is_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    end_at(tmp_path / "a", BEYOND)
    with pytest.raises(sh.DataError, match=r"a @ 7: .*more than the memory"):
        stat_file(tmp_path / "a").fetch(7, BEYOND - 7)
