"""Many offsets of a local ``.npy`` file are mapped, and may be cut or written at any time."""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.read.test_mapped import PAGE, make_a_link, touch_mode, write_the_same

import sweephand as sh
from sweephand.deserializers import npy_columns

LENGTHS = 5 + np.arange(2000) * 7 % 11
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
VALUES = np.arange(len(LENGTHS)).repeat(LENGTHS)  # each is the number of its sequence
SIZE = 128 + OFFSETS.nbytes


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npy_columns, "_MANY_OFFSETS", 0)


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


def column_of(values: Path, offsets: Path) -> npy_columns.FileColumn:
    return npy_columns.open_column("x", (values, offsets), sh.StreamDef())


@pytest.mark.parametrize("window", [{}, {"randomization_window_in_chunks": 4}], ids=repr)
def test_what_is_mapped_is_served_as_what_is_copied(
    offsets: Path, window: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = []
    for most in (0, 10**6):
        monkeypatch.setattr(npy_columns, "_MANY_OFFSETS", most)
        column = column_of(offsets.with_name("x.npy"), offsets).column
        assert (column.mapped_offsets is not None) == (most == 0)
        with sh.MinibatchSource(corpus_of(offsets, 100), **window, max_sweeps=2) as source:
            batches = [(mb.ids, mb["x"].values.tolist()) for mb in source.minibatches(100)]
            served.append((batches, source.get_checkpoint_state()))
    assert served[0] == served[1]


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


@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded(), sh.Packed(64)], ids=repr)
@pytest.mark.parametrize("window", [{}, {"randomization_window_in_chunks": 4}], ids=repr)
@pytest.mark.parametrize("threads", [0, 2])
def test_offsets_may_be_cut_at_any_time(
    offsets: Path, layout: sh.Layout, window: dict[str, int], threads: int
) -> None:
    for served in (0, 1, 3):
        for size in (0, 1, PAGE, 3 * PAGE + 7, SIZE - 1):
            np.save(offsets, OFFSETS)
            with sh.MinibatchSource(
                corpus_of(offsets, 100),
                layout=layout,
                num_threads=threads,
                **window,
            ) as source:
                for _ in range(served):
                    source.next_minibatch(64)
                os.truncate(offsets, size)
                for _ in range(2):
                    with pytest.raises(sh.StaleError, match=r"x_offsets\.npy"):
                        collections.deque(source.minibatches(2000), 0)


def test_offsets_that_were_cut_before_they_are_measured_are_stale(offsets: Path) -> None:
    corpus = corpus_of(offsets)
    os.truncate(offsets, PAGE)
    with pytest.raises(sh.StaleError, match=r"x_offsets\.npy"):
        sh.MinibatchSource(corpus).next_minibatch(10)


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


@pytest.mark.parametrize("touch", [touch_mode, make_a_link, write_the_same])
@pytest.mark.parametrize("layout", [sh.Ragged(), sh.Padded()], ids=repr)
def test_offsets_that_are_touched_and_keep_their_bytes_end_no_run(
    offsets: Path, touch: Callable[[Path], None], layout: sh.Layout
) -> None:
    corpus = corpus_of(offsets)
    touch(offsets)
    with sh.MinibatchSource(corpus, layout=layout, randomize=False, num_threads=0) as source:
        for _ in range(4):
            source.current_position = 0
            assert_whole(source.next_minibatch(500)["x"].as_sequences())
            touch(offsets)


def test_an_offset_that_descends_is_found_where_it_is_used(offsets: Path) -> None:
    wrong = OFFSETS.copy()
    wrong[1000] = 3
    np.save(offsets, wrong)
    with pytest.raises(sh.DataError, match=r"x_offsets\.npy.*sequence 999.*must not descend"):
        npy_columns.open_column("x", (offsets.with_name("x.npy"), offsets), sh.StreamDef())
