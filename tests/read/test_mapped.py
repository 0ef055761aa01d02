"""Local files of bare numbers are mapped into memory, and may be cut under it at any time."""

from __future__ import annotations

import collections
import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.sanitized import no_other_handler

import sweephand as sh
from sweephand import _core
from sweephand.deserializers import npy
from sweephand.files.local import stat_file

PAGE = 4096
NUMBERS = 20_000


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets are mapped however few they are."""
    monkeypatch.setattr(npy, "MANY_SEQUENCES", 0)


def raw_tokens(folder: Path) -> sh.Deserializer:
    np.arange(NUMBERS, dtype=np.uint16).tofile(folder / "a.bin")
    return sh.RawTokensDeserializer(folder / "a.bin", "uint16", 10, sh.StreamDefs(x=FIELD))


def raw_tokens_of_two_files(folder: Path) -> sh.Deserializer:
    np.arange(NUMBERS, dtype=np.uint16).tofile(folder / "a.bin")
    np.arange(NUMBERS, dtype=np.uint16).tofile(folder / "b.bin")
    return sh.RawTokensDeserializer(folder / "?.bin", "uint16", 10, sh.StreamDefs(x=FIELD))


def array_of_rows(folder: Path) -> sh.Deserializer:
    np.save(folder / "a.bin.npy", np.arange(NUMBERS, dtype=np.uint16).reshape(-1, 10))
    (folder / "a.bin.npy").rename(folder / "a.bin")
    return sh.NpyDeserializer({"x": folder / "a.bin"})


def array_of_sequences(folder: Path) -> sh.Deserializer:
    np.save(folder / "offsets.npy", np.arange(0, NUMBERS + 1, 10))
    np.save(folder / "a.bin.npy", np.arange(NUMBERS, dtype=np.uint16))
    (folder / "a.bin.npy").rename(folder / "a.bin")
    definitions = sh.StreamDefs(x=sh.StreamDef(dtype="int64"))  # converted, not copied
    return sh.NpyDeserializer({"x": (folder / "a.bin", folder / "offsets.npy")}, definitions)


def offsets_of_sequences(folder: Path) -> sh.Deserializer:
    np.save(folder / "values.npy", np.arange(NUMBERS, dtype=np.uint16))
    np.save(folder / "a.bin.npy", np.arange(0, NUMBERS + 1, 10))
    (folder / "a.bin.npy").rename(folder / "a.bin")
    return sh.NpyDeserializer({"x": (folder / "values.npy", folder / "a.bin")})


FIELD = sh.StreamDef(field="tokens")
KINDS = [raw_tokens, raw_tokens_of_two_files, array_of_rows, array_of_sequences]
KINDS += [offsets_of_sequences]
each_kind = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


MANY = 1030  # files: of so many small ones are held
MANY_TOKENS = [[number, 2 * number] for number in range(MANY)]


@pytest.fixture
def many_files(tmp_path: Path) -> sh.Deserializer:
    for number, own in enumerate(MANY_TOKENS):
        np.array(own, np.uint16).tofile(tmp_path / f"{number:04}.bin")
    np.arange(1 << 16, dtype=np.uint16).tofile(tmp_path / "large.bin")
    (tmp_path / "empty.bin").touch()
    return sh.RawTokensDeserializer(str(tmp_path / "*.bin"), "uint16", 1 << 16)


def test_many_small_files_are_what_they_were_when_they_were_read(
    tmp_path: Path, many_files: sh.Deserializer
) -> None:
    expected = [*MANY_TOKENS, list(range(1 << 16))]
    with sh.MinibatchSource(many_files, randomize=False, num_threads=0) as source:
        assert source.next_minibatch(MANY * 3)["tokens"].as_sequences()[7].tolist() == [7, 14]
        np.array([1, 1], np.uint16).tofile(tmp_path / "0007.bin")
        os.truncate(tmp_path / "0008.bin", 0)
        source.current_position = 0
        found = [mb["tokens"].as_sequences() for mb in islice(source.minibatches(MANY * 2), 2)]
        assert [one.tolist() for part in found for one in part] == expected


@pytest.mark.parametrize("name", ["0007.bin", "large.bin"])
def test_one_of_many_files_that_changed_before_it_was_read_is_stale(
    tmp_path: Path, many_files: sh.Deserializer, name: str
) -> None:
    np.array([1, 1], np.uint16).tofile(tmp_path / name)
    with sh.MinibatchSource(many_files, randomize=False) as source:
        for _ in range(2):
            with pytest.raises(sh.StaleError, match=name):
                list(islice(source.minibatches(MANY * 2), 2))


def many_small_files(tmp_path: Path) -> sh.Deserializer:
    """Return files of which all are held, in sequences of 1 to 100 tokens."""
    for number in range(MANY):
        tokens_of_file(number).tofile(tmp_path / f"{number:04}.bin")
    (tmp_path / "0500-empty.bin").touch()
    return sh.RawTokensDeserializer(str(tmp_path / "*.bin"), "uint16", 100)


def tokens_of_file(number: int) -> NDArray[np.uint16]:
    return (np.arange(number * 7 % 350 + 1) + number).astype(np.uint16)


@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded()], ids=repr)
@pytest.mark.parametrize("threads", [0, 2])
def test_files_that_are_all_held_are_served_as_they_are(
    tmp_path: Path, layout: sh.Layout, threads: int
) -> None:
    many_small_files(tmp_path)
    expected = [
        own[begin : begin + 100].tolist()
        for own in map(tokens_of_file, range(MANY))
        for begin in range(0, len(own), 100)
    ]
    for dtype in (np.uint16, np.int64):
        streams = sh.StreamDefs(tokens=sh.StreamDef(field="tokens", dtype=dtype))
        corpus = sh.RawTokensDeserializer(str(tmp_path / "*.bin"), "uint16", 100, streams)
        # In the first sweep files are read, in the second one all are held.
        with sh.MinibatchSource(
            corpus, layout=layout, num_threads=threads, max_sweeps=2
        ) as source:
            found = [
                own
                for minibatch in source.minibatches(1000)
                for own in minibatch["tokens"].as_sequences()
            ]
        assert {own.dtype for own in found} == {np.dtype(dtype)}
        assert sorted(own.tolist() for own in found) == sorted(2 * expected)


def test_a_piece_beyond_one_of_many_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(8))
    one = stat_file(tmp_path / "a").listed()
    numbers, offsets, sizes = (np.array([n], np.uint64) for n in (3, 4, 5))
    extents = _core.read.Extents(
        [one] * MANY, numbers.repeat(2), offsets.repeat(2), sizes.repeat(2)
    )
    with pytest.raises(sh.DataError, match="the file ends at 8"):
        extents.gather(np.array([0], np.uint64), sizes, np.empty(5, np.uint8))


@each_kind
@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded()], ids=repr)
@pytest.mark.parametrize("threads", [0, 2])
def test_a_file_may_be_cut_at_any_time(
    tmp_path: Path, make: Callable[[Path], sh.Deserializer], layout: sh.Layout, threads: int
) -> None:
    for served in (0, 1, 3):
        for size in (0, 1, PAGE - 1, PAGE, 3 * PAGE + 7, 2 * NUMBERS - 1):
            corpus = make(tmp_path)
            with sh.MinibatchSource(corpus, layout=layout, num_threads=threads) as source:
                for _ in range(served):
                    source.next_minibatch(50)
                os.truncate(tmp_path / "a.bin", size)
                for _ in range(2):  # it stays usable, and does not come right by asking again
                    with pytest.raises(sh.StaleError, match=r"a\.bin"):
                        collections.deque(source.minibatches(2000), 0)


@each_kind
def test_nothing_but_what_was_written_comes_while_a_file_is_cut_and_written_again(
    tmp_path: Path, make: Callable[[Path], sh.Deserializer]
) -> None:
    whole, done = make(tmp_path), threading.Event()
    content = (tmp_path / "a.bin").read_bytes()
    status = (tmp_path / "a.bin").stat()

    def cut_and_write() -> None:
        while not done.is_set():
            os.truncate(tmp_path / "a.bin", PAGE)
            (tmp_path / "a.bin").write_bytes(content)
            os.utime(tmp_path / "a.bin", ns=(status.st_atime_ns, status.st_mtime_ns))

    thread = threading.Thread(target=cut_and_write)
    thread.start()
    try:
        for _ in range(300):
            try:
                with sh.MinibatchSource(whole, max_sweeps=1, num_threads=0) as source:
                    for batch in source.minibatches(2000):
                        for row in batch["x"].as_sequences():
                            first, *rest = np.ravel(row).tolist()
                            assert first % 10 == 0
                            assert rest == list(range(first + 1, first + 10))
            except (sh.DataError, OSError):
                continue
    finally:
        done.set()
        thread.join()


@each_kind
def test_zeros_of_a_file_that_was_cut_do_not_come_when_it_is_whole_again(
    tmp_path: Path, make: Callable[[Path], sh.Deserializer]
) -> None:
    corpus = make(tmp_path)
    content, status = (tmp_path / "a.bin").read_bytes(), (tmp_path / "a.bin").stat()
    with sh.MinibatchSource(corpus, max_sweeps=1, randomize=False, num_threads=0) as source:
        source.next_minibatch(10)
        os.truncate(tmp_path / "a.bin", PAGE)
        with pytest.raises(sh.StaleError, match=r"a\.bin"):
            source.next_minibatch(NUMBERS)
        (tmp_path / "a.bin").write_bytes(content)
        os.utime(tmp_path / "a.bin", ns=(status.st_atime_ns, status.st_mtime_ns))
        for _ in range(2):
            source.current_position = 0
            try:
                rows = source.next_minibatch(NUMBERS)["x"].as_sequences()
            except sh.StaleError as error:
                assert "open it again" in str(error)  # noqa: PT017 - either is right
            else:
                assert np.array_equal(np.ravel(rows[: NUMBERS // 10]), np.arange(NUMBERS))


def touch_mode(path: Path) -> None:
    path.chmod(path.stat().st_mode ^ 0o040)


def make_a_link(path: Path) -> None:
    os.link(path, path.with_name("link"))
    path.with_name("link").unlink()


def write_the_same(path: Path) -> None:
    status = path.stat()
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@each_kind
@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded()], ids=repr)
@pytest.mark.parametrize("touch", [touch_mode, make_a_link, write_the_same])
def test_a_file_that_is_touched_and_keeps_its_bytes_ends_no_run(
    tmp_path: Path,
    make: Callable[[Path], sh.Deserializer],
    layout: sh.Layout,
    touch: Callable[[Path], None],
) -> None:
    corpus = make(tmp_path)
    with sh.MinibatchSource(corpus, layout=layout, randomize=False, num_threads=0) as source:
        for round_ in range(4):
            source.current_position = 0
            rows = source.next_minibatch(100)["x"].as_sequences()
            assert np.array_equal(np.ravel(rows), np.arange(len(rows) * 10)), round_
            touch(tmp_path / "a.bin")


OTHER_MAPPING = """
import faulthandler, mmap, os, sys
import numpy as np
import sweephand as sh
from sweephand import _core
from sweephand.deserializers import npy
from sweephand.files.local import stat_file
{before}
sh.MinibatchSource(sh.RawTokensDeserializer("a.bin", "uint16", 10)).next_minibatch(10)
with open("b.bin", "r+b") as file:
    other = mmap.mmap(file.fileno(), 0)
    os.truncate("b.bin", 0)
    other[0]
"""


@no_other_handler
@pytest.mark.parametrize("before", ["", "faulthandler.enable()"])
def test_a_bus_error_elsewhere_ends_the_process_as_before(tmp_path: Path, before: str) -> None:
    for name in ("a.bin", "b.bin"):
        np.arange(1000, dtype=np.uint16).tofile(tmp_path / name)
    ended = subprocess.run(
        [sys.executable, "-c", OTHER_MAPPING.format(before=before)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGBUS
    assert ("Bus error" in ended.stderr) == bool(before), ended.stderr


@no_other_handler
def test_a_signal_that_was_sent_still_ends_the_process(tmp_path: Path) -> None:
    raw_tokens(tmp_path)
    program = (
        "import os, signal, sweephand as sh\n"
        "corpus = sh.RawTokensDeserializer('a.bin', 'uint16', 10)\n"
        "sh.MinibatchSource(corpus).next_minibatch(9)\n"
        "os.kill(os.getpid(), signal.SIGBUS)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGBUS


def test_the_handler_of_faults_that_python_installed_is_not_called_for_a_cut_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert faulthandler.is_enabled()  # by the runner of the tests
    source = sh.MinibatchSource(raw_tokens(tmp_path), num_threads=0)
    os.truncate(tmp_path / "a.bin", 0)
    with pytest.raises(sh.StaleError):
        source.next_minibatch(100)
    assert "Bus error" not in capfd.readouterr().err


# -- many offsets --
LENGTHS = 5 + np.arange(2000) * 7 % 11
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
VALUES = np.arange(len(LENGTHS)).repeat(LENGTHS)  # each is the number of its sequence
SIZE = 128 + OFFSETS.nbytes


@pytest.fixture
def offsets(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", VALUES)
    np.save(tmp_path / "x_offsets.npy", OFFSETS)
    assert (tmp_path / "x_offsets.npy").stat().st_size == SIZE
    return tmp_path / "x_offsets.npy"


def corpus_of(offsets: Path, chunk_size: int | None = None) -> sh.Deserializer:
    return sh.NpyDeserializer(offsets.with_name("x.npy"), chunk_size=chunk_size)


def assert_whole(sequences: list[np.ndarray]) -> None:
    for row in sequences:
        assert row.tolist() == [row[0]] * LENGTHS[row[0]]


def column_of(values: Path, offsets: Path) -> npy.FileColumn:
    return npy.open_column("x", (values, offsets), sh.StreamDef())


def as_other_type(offsets: Path) -> None:
    np.save(offsets, OFFSETS.astype(np.int32))


def as_other_order(offsets: Path) -> None:
    np.save(offsets, OFFSETS.astype(">i8"))


def as_unaligned(offsets: Path) -> None:
    content = offsets.read_bytes()
    header = content[10:126].rstrip() + b"\n"
    header = header.replace(b"{", b"{" + b" " * (1 - len(header) % 2))  # to an odd offset
    offsets.write_bytes(
        content[:8] + len(header).to_bytes(2, "little") + header + OFFSETS.tobytes()
    )


@pytest.mark.parametrize("write", [as_other_type, as_other_order, as_unaligned])
def test_offsets_that_are_not_stored_as_they_are_used_are_copied(
    offsets: Path, write: Callable[[Path], None]
) -> None:
    write(offsets)
    column = column_of(offsets.with_name("x.npy"), offsets).column
    assert column.mapped_offsets is None
    assert np.array_equal(column.sample_offsets, OFFSETS)


WRONG = [
    np.full(len(OFFSETS), -1),
    np.full(len(OFFSETS), 2**62),
    np.random.default_rng(0).integers(-(2**63), 2**63 - 1, len(OFFSETS)),
    OFFSETS[::-1],
]


@pytest.mark.parametrize("window", [{}, {"randomization_window_in_chunks": 4}], ids=repr)
@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded(), sh.Packed(64)], ids=repr)
def test_nothing_wrong_comes_while_offsets_are_written(
    offsets: Path, window: dict[str, int], layout: sh.Layout
) -> None:
    content, status, done = offsets.read_bytes(), offsets.stat(), threading.Event()
    right = np.frombuffer(content, np.uint8)[128:].tobytes()

    def write() -> None:
        with offsets.open("r+b") as file:
            while not done.is_set():
                for wrong in (*(one.tobytes() for one in WRONG), right):
                    file.seek(128)
                    file.write(wrong)
                    file.flush()
                    os.utime(offsets, ns=(status.st_atime_ns, status.st_mtime_ns))

    thread = threading.Thread(target=write)
    corpus = corpus_of(offsets, 100)
    thread.start()
    try:
        for _ in range(60):
            with (
                suppress(sh.DataError, ValueError, OSError),
                sh.MinibatchSource(
                    corpus,
                    layout=layout,
                    max_sweeps=1,
                    num_threads=0,
                    **window,
                ) as source,
            ):
                for batch in source.minibatches(2000):
                    if isinstance(layout, sh.Ragged):
                        assert_whole(batch["x"].as_sequences())
    finally:
        done.set()
        thread.join()
