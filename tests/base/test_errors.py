"""Errors keep their place on the way from C++ to Python and between processes."""

import errno
import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh
from sweephand import _core
from sweephand.base.public_names import importable_names
from sweephand.errors import printable

# what() ends at a NUL character, and surrogates are no UTF-8.
characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
names = st.none() | st.text(characters, max_size=10)
numbers = st.none() | st.integers(0, 2**64 - 1)


def test_public_errors_have_the_codes_that_programs_read() -> None:
    names = [(room, name) for room in (sh, sh.train) for name in importable_names(room)]
    kinds = [getattr(room, name) for room, name in names if name.endswith(("Error", "Hint"))]
    assert {kind.__name__: kind.code for kind in kinds}.items() >= {
        "DataError": "damaged-data",
        "LossScaleError": "loss-scale",
        "SpikeError": "loss-spike",
        "StaleError": "stale-data",
        "StateError": "wrong-state",
        "SweephandHint": "hint",
    }.items()


def test_an_error_reads_place_first_then_reason() -> None:
    with pytest.raises(sh.DataError) as caught:
        _core.testing.throw_data_error(
            "checksum mismatch", _core.testing.Place("a.tfrecord", 4096, 2, "labels", 17, 3)
        )
    assert str(caught.value) == (
        "a.tfrecord @ 4096 [line 3, chunk 2, stream 'labels', sequence 17]: checksum mismatch"
    )


@given(names, numbers, numbers, names, numbers, numbers)
def test_python_and_cpp_write_the_same_text(
    file: str | None,
    offset: int | None,
    chunk: int | None,
    stream: str | None,
    sequence: int | None,
    line: int | None,
) -> None:
    place = (file, offset, chunk, stream, sequence, line)
    with pytest.raises(sh.DataError) as caught:
        _core.testing.throw_data_error("reason", _core.testing.Place(*place))
    assert caught.value.args == ("reason", *place)
    told = _core.testing.describe_data_error("reason", _core.testing.Place(*place))
    assert str(caught.value) == printable(told)


def test_bytes_that_are_no_utf8_do_not_hide_the_error() -> None:
    with pytest.raises(sh.DataError) as caught:
        _core.testing.throw_data_error(
            b"not a number: '\xff'",
            _core.testing.Place(b"\xfe.ctf", None, None, None, None, None),
        )
    assert caught.value.reason == "not a number: '\udcff'"
    assert caught.value.file == os.fsdecode(b"\xfe.ctf")


@pytest.mark.parametrize("kind", [sh.DataError, sh.StaleError])
def test_an_error_survives_pickling(kind: type[sh.DataError]) -> None:
    error = kind("reason", "file", 1, 2, "stream", "file__17")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert (copy.reason, copy.file, copy.offset) == ("reason", "file", 1)
    assert (copy.chunk, copy.stream, copy.sequence) == (2, "stream", "file__17")


def test_stale_data_is_a_data_error_of_its_own() -> None:
    with pytest.raises(sh.StaleError, match="changed") as caught:
        _core.testing.throw_stale_error(
            "the file changed", _core.testing.Place("a.bin", None, None, None, None, None)
        )
    assert isinstance(caught.value, sh.DataError)
    assert caught.value.file == "a.bin"


def test_a_failure_of_the_system_is_an_oserror_that_names_the_file() -> None:
    with pytest.raises(FileNotFoundError, match="No such file") as caught:
        _core.testing.throw_system_error(errno.ENOENT, "absent.npy")
    assert caught.value.filename == "absent.npy"
