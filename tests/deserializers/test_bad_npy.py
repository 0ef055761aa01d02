"""Files that are no arrays, or no longer: an error with the file's name, never a crash."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.extent import sample

import sweephand as sh


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 20 rows of 3 numbers."""
    path = tmp_path / "x.npy"
    np.save(path, np.arange(60, dtype=np.float32).reshape(20, 3))
    return path


def source_of(path: Path, **options: Any) -> sh.MinibatchSource:
    return sh.MinibatchSource(sh.NpyDeserializer({"x": path}), **options)


def test_a_header_with_any_bit_flipped_is_an_error_or_the_array_that_it_describes(
    path: Path,
) -> None:
    whole = path.read_bytes()
    header = len(whole) - 240
    told: list[str] = []
    for place in sample(range(header), 48):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NumPy's, on headers of Python 2
                try:
                    source = source_of(path, randomize=False)
                except (sh.DataError, ValueError) as error:
                    told.append(str(error))
                    continue
                wanted = np.load(io.BytesIO(bytes(damaged)))
            with source:
                found = source.next_minibatch(len(wanted))["x"].values
            if wanted.dtype.kind in "SU":
                wanted = np.array([one.encode() for one in wanted.astype(str)], object)
            np.testing.assert_array_equal(found, wanted)
    assert all(str(path) in message or "'x'" in message for message in told)


def test_pickled_objects_are_refused_and_never_loaded(tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {ran}",)

    np.save(tmp_path / "x.npy", np.array([Attack()], object), allow_pickle=True)
    with pytest.raises(sh.DataError, match="holds pickled objects, which are never loaded"):
        source_of(tmp_path / "x.npy")
    assert not ran.exists()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.float64(3), "a single number"),
        (np.asfortranarray(np.ones((3, 4))), "Fortran order; save numpy.ascontiguousarray"),
        (np.zeros(4, "M8[ns]"), r"holds datetime64\[ns\], neither numbers nor texts"),
        (np.zeros(4, "f4,>i4"), "holds records, neither numbers nor texts"),
        (np.zeros(4, "V2"), r"holds .V2, neither .* if these are bfloat16, declare"),
        (np.zeros(4, "V3"), r"holds .V3, neither numbers nor texts$"),
        (np.zeros((4, 2), "U3"), r"several texts in a row: shape \(4, 2\)"),
    ],
)
def test_an_array_that_cannot_be_read_in_place_is_refused(
    tmp_path: Path, array: Any, message: str
) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(sh.DataError, match=message) as caught:
        source_of(tmp_path / "x.npy")
    assert caught.value.file == str(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 12, 8, 20], "offsets of sequence 1 are .*they must not descend"),
        ([0, 12, 21], "offsets"),
        ([1, 20], "offsets"),
        ([0.0, 20.0], "one row of integers"),
    ],
)
def test_offsets_that_do_not_fit_are_refused_with_their_file(
    path: Path, offsets: Any, message: str
) -> None:
    other = path.with_name("offsets.npy")
    np.save(other, np.array(offsets))
    with pytest.raises(sh.DataError, match=message) as caught:
        sh.NpyDeserializer({"x": (path, other)})
    assert caught.value.file == str(other)


def write_header(path: Path, descr: str, shape: tuple[int, ...], content: bytes = b"") -> Path:
    """A file whose header says anything."""
    header = io.BytesIO()
    described = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    path.write_bytes(header.getvalue() + content)
    return path


@pytest.mark.parametrize("descr", ["|S0", "|V0", "<U0"])
@pytest.mark.parametrize("shape", [(3,), (2**62,), (2, 3)])
def test_elements_of_no_bytes_are_refused(path: Path, descr: str, shape: Any) -> None:
    with pytest.raises(sh.DataError, match="elements of no bytes") as caught:
        source_of(write_header(path, descr, shape))
    assert caught.value.file == str(path)


@pytest.mark.parametrize(
    "shape",
    [
        (2**63 - 1, 0),
        (2**70, 0),
        (0, 2**40, 2**40),
        (5, 2**63 - 1, 0),
    ],
)
def test_extents_that_no_array_has_are_refused(path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises((sh.DataError, ValueError), match=r"cannot be|of no elements"):
        source_of(write_header(path, "<f4", shape))
    offsets = path.with_name("offsets.npy")
    np.save(offsets, [0, shape[0]] if shape[0] < 2**63 else [0, 1])
    with pytest.raises((sh.DataError, ValueError), match=r"cannot be|of no elements|at most"):
        sh.NpyDeserializer({"x": (path, offsets)})


NUMBERS = [f"{order}{code}" for order in "<>" for code in ("i2", "u2", "f2", "f4", "i8", "c8")]


@pytest.mark.parametrize("shape", [(6,), (6, 2)])
@pytest.mark.parametrize("descr", [*NUMBERS, "?", "|i1", "|u1"])
@pytest.mark.parametrize("has_offsets", [False, True])
@pytest.mark.parametrize("window", [None, 3])
def test_numbers_of_any_width_and_order_are_served(
    path: Path, descr: str, shape: tuple[int, ...], has_offsets: bool, window: int | None
) -> None:
    wanted = np.arange(np.prod(shape)).reshape(shape).astype(descr)
    np.save(path, wanted)
    offsets = write_header(
        path.with_name("o.npy"), ">i8", (3,), np.array([0, 2, 6], ">i8").tobytes()
    )
    given = (path, offsets) if has_offsets else path
    options: Any = {"randomize": False, "max_sweeps": 1}
    if window is not None:
        options["randomization_window_in_samples"] = window
    corpus = sh.NpyDeserializer({"x": given}, chunk_size=1)
    with sh.MinibatchSource(corpus, **options) as source:
        parts = [one["x"].values.copy() for one in source.minibatches(2)]
    found = np.concatenate(parts)
    assert found.dtype == wanted.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("descr", ["<U3", ">U3", "S3"])
def test_texts_are_bytes_as_in_other_formats(path: Path, descr: str) -> None:
    texts = ["a", "bcd", "", "é" if "U" in descr else "e"]
    np.save(path, np.array(texts, descr))
    with source_of(path, randomize=False) as source:
        assert source.next_minibatch(4)["x"].values.tolist() == [one.encode() for one in texts]
    offsets = path.with_name("o.npy")
    np.save(offsets, [0, 3, 4])
    corpus = sh.NpyDeserializer({"x": (path, offsets)})
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        found = source.next_minibatch(4)["x"].as_sequences()
        assert [len(one) for one in found] == [3, 1]


def test_two_bytes_of_no_type_are_a_bfloat16_where_it_is_declared(path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    wanted = np.arange(6).astype(ml_dtypes.bfloat16).reshape(3, 2)
    streams = sh.StreamDefs(x=sh.StreamDef(dtype="bfloat16"))
    np.save(path, wanted)
    with sh.MinibatchSource(
        sh.NpyDeserializer({"x": path}, streams), randomize=False
    ) as source:
        found = source.next_minibatch(3)["x"].values
    assert found.dtype == wanted.dtype
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("second", ["<i8", ">i4", "<U2"])
def test_files_of_a_stream_have_one_type(path: Path, second: str) -> None:
    paths = [path, path.with_name("y.npy")]
    np.save(paths[0], np.arange(3, dtype="<i4"))
    np.save(paths[1], np.arange(4).astype(second))
    with pytest.raises(sh.DataError, match=r"samples of .*others of") as caught:
        sh.NpyDeserializer({"x": paths}, sh.StreamDefs(x=sh.StreamDef(dtype="int32")))
    assert caught.value.file == str(paths[1])


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_header_is_read(path: Path, version: Any) -> None:
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.arange(12.0).reshape(4, 3), version)
    with source_of(path, randomize=False) as source:
        assert (
            source.next_minibatch(4)["x"].values.tolist()
            == np.arange(12.0).reshape(4, 3).tolist()
        )
    path.write_bytes(b"\x93NUMPY\x04" + path.read_bytes()[7:])
    with pytest.raises(sh.DataError, match=r"version \(4, 0\) is not supported"):
        source_of(path)
