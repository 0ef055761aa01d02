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
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.read.format_corpora import TOKENS, varied, write_megatron
from tests.sanitized import no_other_handler

import sweephand as sh
from sweephand import _core
from sweephand.files.local import stat_file

PAGE = 4096
NUMBERS = 20_000


def tokens(deserializer: sh.Deserializer) -> dict[str, list[int]]:
    with sh.MinibatchSource(deserializer, max_sweeps=1, num_lanes=3) as source:
        return {
            name: one.tolist()
            for batch in source.minibatches(20)
            for name, one in zip(batch.ids, batch["tokens"].as_sequences(), strict=True)
        }


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


FIELD = sh.StreamDef(field="tokens")
KINDS = [raw_tokens, raw_tokens_of_two_files, array_of_rows, array_of_sequences]
each_kind = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


@pytest.mark.parametrize("dtype", ["uint16", "int64"])
def test_what_is_mapped_is_what_was_written(tmp_path: Path, dtype: str) -> None:
    parts = varied().parts(3)
    for number, part in enumerate(parts):
        write_megatron(tmp_path / f"part-{number}", part.tokens)
    assert tokens(sh.MegatronDeserializer(str(tmp_path / "part-*"), TOKENS)) == {
        f"part-{number}.bin__{i}": list(sequence)
        for number, part in enumerate(parts)
        for i, sequence in enumerate(part.tokens)
    }
    np.arange(4003).astype(dtype).tofile(tmp_path / "raw.bin")
    (tmp_path / "empty.bin").touch()
    raw = sh.RawTokensDeserializer([tmp_path / "raw.bin", tmp_path / "empty.bin"], dtype, 7)
    assert tokens(raw) == {
        f"raw.bin__{i}": list(range(7 * i, min(4003, 7 * i + 7))) for i in range(572)
    }


def test_a_file_that_was_replaced_is_stale(tmp_path: Path) -> None:
    corpus = raw_tokens(tmp_path)
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "new.bin")
    (tmp_path / "new.bin").replace(tmp_path / "a.bin")
    with pytest.raises(sh.StaleError, match=r"a\.bin"):
        sh.MinibatchSource(corpus).next_minibatch(10)


def test_more_files_than_may_be_open_are_read(tmp_path: Path) -> None:
    for number in range(300):
        np.full(4, number, np.uint16).tofile(tmp_path / f"{number:03}.bin")
    corpus = sh.RawTokensDeserializer(str(tmp_path / "*.bin"), "uint16", 4)
    assert sorted(tokens(corpus).values()) == [[n] * 4 for n in range(300)]
    last = tmp_path / "299.bin"  # it was opened beyond those that keep a descriptor
    with sh.MinibatchSource(corpus, randomize=False, num_threads=0) as source:
        source.next_minibatch(1200)
        os.truncate(last, 2)
        with pytest.raises(sh.StaleError, match=r"299\.bin"):
            source.next_minibatch(1200)


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


def test_a_file_that_changed_before_it_was_held_is_stale(tmp_path: Path) -> None:
    corpus = many_small_files(tmp_path)
    os.truncate(tmp_path / "0007.bin", 10)
    with sh.MinibatchSource(corpus, num_threads=0) as source:
        for _ in range(2):
            source.current_position = 0
            with pytest.raises(sh.StaleError, match=r"0007\.bin"):
                list(islice(source.minibatches(1 << 20), 1))


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


@pytest.mark.parametrize("make", [raw_tokens, raw_tokens_of_two_files])
def test_a_file_that_failed_and_is_whole_again_is_read_by_a_new_source(
    tmp_path: Path, make: Callable[[Path], sh.Deserializer]
) -> None:
    corpus = make(tmp_path)
    content, status = (tmp_path / "a.bin").read_bytes(), (tmp_path / "a.bin").stat()
    source = sh.MinibatchSource(corpus, randomize=False, num_threads=0)
    source.next_minibatch(10)
    os.truncate(tmp_path / "a.bin", PAGE)
    with pytest.raises(sh.StaleError):
        source.next_minibatch(NUMBERS)
    (tmp_path / "a.bin").write_bytes(content)
    os.utime(tmp_path / "a.bin", ns=(status.st_atime_ns, status.st_mtime_ns))
    new = sh.MinibatchSource(corpus, randomize=False, num_threads=0)
    rows = new.next_minibatch(NUMBERS)["x"].values.reshape(-1, 10)
    assert rows.tolist() == np.arange(NUMBERS, dtype=np.uint16).reshape(-1, 10).tolist()


OTHER_MAPPING = """
import faulthandler, mmap, os, sys
import numpy as np
import sweephand as sh
from sweephand import _core
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
