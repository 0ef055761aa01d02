from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.extent import draws
from tests.read.ctf_core import build_index, cut_file, make_format, open_ctf, read_ctf
from tests.read.ctf_model import FatalError, Reader, Stream

from sweephand import DataError, StaleError, _core

A = Stream("A", 1)
B = Stream("B", 10, is_sparse=True)
GOOD = b"7 |A 0.5 |B 3:1\n7 |A 1.5\n7 |A -2  |B 0:0.25 9:4\n8 |A 1e2 |B\n"
ALPHABET = b"|AB# \t\n\r0123456789:.eE+-"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "corpus.ctf"


def assert_as_the_model(
    path: Path, data: bytes, streams: list[Stream], **options: bool
) -> None:
    path.write_bytes(data)
    try:
        expected = Reader(data, streams, **options).read()
    except FatalError:
        with pytest.raises(DataError):
            read_ctf(path, streams, **options)
        return
    assert read_ctf(path, streams, **options) == expected


def assert_items(path: Path, lines: bytes, reasons: list[str]) -> None:
    """A valid sequence, then the lines: they give these items, in part."""
    path.write_bytes(b"1 |A 1 |B 1:1\n" + lines)
    index = build_index(path, make_format([A, B]), [], 100)
    found = [item.reason for item in index.ledger.items]
    assert len(found) == len(reasons), found
    for reason, expected in zip(found, reasons, strict=True):
        assert expected in reason


EMPTY_ROW = "expected a sample of a declared stream in every line"
ABSENT = "the sequence has no sample of this stream"


@pytest.mark.parametrize(
    ("lines", "reasons"),
    [
        (b"5|A 5.|B 5:5\n", []),
        (b"1 |A 1.0 1.0 |B 1:1\n", ["no number beyond the 1 of its shape"]),
        (b"1 |A 1 |B 10:1\n", ["an index below 10"]),
        (b"2 |A 2,0\n", ["a blank, '|' or the end", EMPTY_ROW, ABSENT]),
        (b"2 |B 2\n", ["':' behind the index, found the end of the line", EMPTY_ROW, ABSENT]),
        (b"2 |B 2::2\n", ["a number like", EMPTY_ROW, ABSENT]),
        (b"2 |B -2:2\n", ["an index and a number", EMPTY_ROW, ABSENT]),
        (b"3 | A 3 |B 3:3\n", ["the name of a stream", ABSENT]),
        (b"4 |A 4 |B 4:4\n|A 4 |B 4:4\n", []),
        (b"5\n5 |A 1 |B\n", [EMPTY_ROW]),
        (b"5 |C 1 |A 1\n5 |C 2 |B\n", []),
        (b"4| \n", ["the name of a stream", EMPTY_ROW, ABSENT]),
        (b"|\n", ["the name of a stream", EMPTY_ROW, "no stream has more than 1"]),
        (b"\n", [EMPTY_ROW]),
        (b"|#### TAB \t|A 4.0\t|####|B 4:4\n", []),
        (b"5 |A 1.0 |B 2:1 |B 3:1\n", ["no more samples in a line", "more samples of this"]),
        (b"5 |A 1 |B 1:1\n5 |A 1\n5 |B 1:1\n", ["has 3 lines, but no stream has more than 2"]),
        (b"5 |A 1 |B 1:1 1:2\n", ["every index once"]),
        (b"5 |A |B 1:1\n", ["1 numbers, found '|B'"]),
        (b"5 junk |A 1 |B 1:1\n", ["'|' and the name of a stream, found 'junk'"]),
        (b"18446744073709551616 |A 1\n", ["'|' and the name of a stream"]),
        (b"18446744073709551615 |A 1 |B\n", []),
        (b"5 |A 1 |B \x00\n", ["a number like 7:0.5, found '\\x00'", ABSENT]),
        (b"5 |A 1\r|B\n", ["a blank, '|' or the end", ABSENT]),
        (b"5 |A 1 |B 1:", ["a number like", ABSENT]),
        (b"5 |A 1 |B\r", ["a blank, '|' or the end", ABSENT]),
        (b"5 |A 1 |B\n5 |A 2 |other 1 2:3 x\n", []),
        (b"5 |A 1 |B |other \x01\n", ["no control character"]),
        ("5 |A 1\u00a02 |B\n".encode(), ["a blank, '|' or the end", ABSENT]),
        ("5 |A \uff11 |B\n".encode(), ["a number like", ABSENT]),
    ],
)
def test_every_rule_has_its_item(path: Path, lines: bytes, reasons: list[str]) -> None:
    assert_items(path, lines, reasons)
    assert_as_the_model(path, b"1 |A 1 |B 1:1\n" + lines, [A, B])


@pytest.mark.parametrize(
    ("dtype", "text", "value"),
    [
        ("int64", "9223372036854775807.000", 2**63 - 1),
        ("uint64", "18446744073709551615", 2**64 - 1),
        ("uint64", "00000000000000000000000000000000001e19", 10**19),
        ("uint8", "2.55e2", 255),
        ("int64", "0e99999999999999999999", 0),
        ("uint64", "18446744073709551616", None),
        ("uint64", "1e20", None),
        ("int64", "1.5", None),
        ("int64", "1e-1", None),
        ("int64", "1e99999999999999999999", None),
    ],
)
def test_an_integer_is_exact_or_refused(
    path: Path, dtype: str, text: str, value: int | None
) -> None:
    path.write_text(f"1 |A {text}\n")
    stream = Stream("A", 1, dtype=dtype)
    if value is None:
        with pytest.raises(DataError, match="expected a"):
            read_ctf(path, [stream], max_errors=0)
    else:
        assert read_ctf(path, [stream], max_errors=0).sequences[0].samples == [[[value]]]


FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False)
    .map(str)
    .filter(lambda text: "." in text),
    st.from_regex(r"\A[+-]?[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,3})?\Z"),
    st.from_regex(r"\A[0-9]{1,9}\.[0-9]{1,9}\Z"),
)


@settings(max_examples=draws(300))
@given(texts=st.lists(FLOATS, min_size=1, max_size=30))
def test_numbers_are_rounded_once(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "numbers.ctf"
    lines = [f"{i} |A {text} |B {text}\n" for i, text in enumerate(texts)]
    streams = [Stream("A", 1, dtype="float32"), Stream("B", 1, dtype="float64")]
    assert_as_the_model(path, "".join(lines).encode(), streams)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(GOOD * draw(st.integers(1, 3)))
    piece = st.lists(st.sampled_from(ALPHABET), max_size=8).map(bytes)
    for _ in range(draw(st.integers(0, 5))):
        place = draw(st.integers(0, len(data)))
        data[place : place + draw(st.integers(0, 5))] = draw(piece)
    return bytes(data[: draw(st.just(len(data)) | st.integers(0, len(data)))])


@settings(max_examples=draws(300))
@given(
    data=damaged(),
    chunk_bytes=st.integers(1, 120),
    splits=st.lists(st.integers(0, 250), max_size=3).map(sorted),
    blank=st.booleans(),
    skip=st.booleans(),
    sized=st.booleans(),
    first=st.integers(0, 1),
)
def test_chunks_and_parts_change_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    data: bytes,
    chunk_bytes: int,
    splits: list[int],
    blank: bool,
    skip: bool,
    sized: bool,
    first: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.ctf"
    path.write_bytes(data)
    streams = [A, Stream("B", 10, is_sparse=True, defines_mb_size=sized)][first:]
    options = {"allow_blank_lines": blank, "skip_sequence_ids": skip}
    try:
        expected = Reader(data, streams, **options).read()
    except FatalError:
        with pytest.raises(DataError):
            read_ctf(path, streams, **options, splits=splits)
        return
    found = read_ctf(path, streams, **options, chunk_bytes=chunk_bytes, splits=splits)
    assert found == expected


L = Stream("L", 1)


def samples(path: Path, data: bytes, streams: list[Stream], **options: Any) -> list[Any]:
    """The samples of the first stream in every sequence; None for one that is skipped."""
    path.write_bytes(data)
    assert_as_the_model(
        path, data, streams, **{k: v for k, v in options.items() if k != "max_errors"}
    )
    corpus = read_ctf(path, streams, **{"max_errors": 0, **options})
    return [
        None if one.is_skipped else [value for [value] in one.samples[0]]
        for one in corpus.sequences
    ]


@pytest.mark.parametrize(
    ("data", "num_errors", "values"),
    [
        # CNTK's own tests: blank_lines_ignored and missing_trailing_newline_ignored.
        (b"1 |A 1.0\n\n2 |A 2.0\n", 1, [[1.0], [2.0]]),
        (b"1|A 1.0\n1|A 2.0|A 3.0", 1, [[1.0, 2.0, 3.0]]),
        (b"1 |A 1\n\n \t\n1 |A 2\n|# comment\n2 |A 3\n\n", 4, [[1.0, 2.0], [3.0]]),
        (b"|A 1\n\n|A 2\n", 1, [[1.0], [2.0]]),
        (b"|A 1\n|# comment\n", 1, [[1.0]]),
        (b"1\n1 |A 1\n", 1, [[1.0]]),
        (b"1 |A 1 |L 1\n1 |L 1\n2 |A 1\n", 0, [[1.0], [1.0]]),
        (b"1 |A 1 |L 1\n2 |L 1\n", 1, [[1.0], None]),
    ],
)
def test_within_the_budget_a_line_without_a_sample_counts_nothing(
    path: Path, data: bytes, num_errors: int, values: list[Any]
) -> None:
    assert samples(path, data, [A], max_errors=num_errors) == values
    if num_errors:
        with pytest.raises(DataError):
            read_ctf(path, [A], max_errors=num_errors - 1)
    for split in range(len(data)):
        assert read_ctf(path, [A], splits=[split]) == read_ctf(path, [A], chunk_bytes=1)


def test_the_budget_is_charged_once_for_a_bad_line(path: Path) -> None:
    path.write_bytes(b"1 |A 1 |B\n2 |A x |B 10:1\n3 |A y |B\n4 |A 1 |B\n")
    corpus = read_ctf(path, [A, B], max_errors=2)
    assert len(corpus.items) == 6
    assert [cause is None for _, cause in corpus.items] == [
        True, False, False, False, True, False,
    ]  # fmt: skip
    assert [sequence.is_skipped for sequence in corpus.sequences] == [False, True, True, False]
    with pytest.raises(DataError, match=r"line 3.*: column 6: expected a number") as caught:
        read_ctf(path, [A, B], max_errors=1)
    assert (caught.value.offset, caught.value.stream, caught.value.sequence) == (30, "A", 3)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("splits", [[], [10], [10, 20, 30, 40]])
def test_the_budget_does_not_depend_on_the_parts(path: Path, splits: list[int]) -> None:
    path.write_bytes(b"1 |A 1\n2 |A x\n3 |A y\n4 |A 1\n5 |A z\n6 |A 1\n")
    with pytest.raises(DataError, match=r"line 5.*: column 6") as caught:
        read_ctf(path, [Stream("A", 1)], max_errors=2, splits=splits)
    assert caught.value.offset == 33


def test_a_byte_order_mark_is_passed_over(path: Path) -> None:
    assert_as_the_model(path, b"\xef\xbb\xbf" + GOOD, [A, B])
    assert_as_the_model(path, b"\xef\xbb\xbf|A 1 |B\n5 |A 1 |B\n", [A, B])


def test_a_line_without_end_is_refused_with_bounded_memory(path: Path) -> None:
    path.write_bytes(b"1 |A 1 |B\n2 |# " + b"x" * (3 << 20))
    form = make_format([A, B], max_line_bytes=1 << 20)
    with pytest.raises(DataError, match="the line is longer than 1048576 bytes") as caught:
        build_index(path, form, [], 0)
    assert caught.value.offset == 10


def test_a_huge_shape_takes_no_memory_before_the_verdict(path: Path) -> None:
    path.write_bytes(b"1 |A 1\n")
    with pytest.raises(DataError, match="expected 2147483647 numbers"):
        read_ctf(path, [Stream("A", 2**31 - 1)], max_errors=0)


def test_a_chunk_of_many_lines_is_read_whole(path: Path) -> None:
    num_lines = 60_000  # more text than what is read first to tell how much room all takes
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 30, num_lines)
    lines = [
        f"{i} |A {i % 7} |B {' '.join(f'{j}:{j}' for j in range(count))}\n"
        for i, count in enumerate(
            np.where(np.arange(num_lines) < 30_000, 1, counts % 10).tolist()
        )
    ]
    path.write_text("".join(lines))
    form = make_format([A, B])
    deserializer, firsts = open_ctf(path, form, build_index(path, form, [], 0), 2**25)
    assert firsts == [0, num_lines]
    dense, sparse = deserializer.load(0)
    np.testing.assert_array_equal(dense[0], np.arange(num_lines) % 7)
    assert sparse[2][-1] == len(sparse[0]) == sum(line.count(":") for line in lines)
    np.testing.assert_array_equal(sparse[0], sparse[3])


def test_an_index_that_lies_is_stale(path: Path) -> None:
    path.write_bytes(GOOD)
    file = _core.read.File(str(path))
    source = _core.formats.CtfFile(str(path), file.tag, False)
    for num_sequences, num_items in ((3, 0), (2, 1)):
        places = np.arange(num_sequences, dtype=np.uint64)
        items = np.zeros(num_items, np.uint64)
        chunks = cut_file(places, places, len(GOOD), items, 2**25)
        deserializer = _core.formats.CtfDeserializer(make_format([A, B]), [source], chunks)
        with pytest.raises(StaleError, match="the index says") as caught:
            deserializer.load(0)
        assert (caught.value.file, caught.value.offset) == (str(path), 0)


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ([], "there must be a stream"),
        ([Stream("a b", 1)], "cannot be a name"),
        ([A, A], "declared twice"),
        ([Stream("A", 0)], "1 to 2\\^31 - 1 numbers, got 0"),
        ([Stream("A", 1, dtype="float16")], "float32, float64 or an integer"),
    ],
)
def test_a_wrong_format_is_a_value_error(
    path: Path, streams: list[Stream], message: str
) -> None:
    path.write_bytes(GOOD)
    with pytest.raises(ValueError, match=message):
        build_index(path, make_format(streams), [], 0)
