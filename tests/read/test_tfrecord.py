import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.extent import draws, sample
from tests.read.example_model import DamagedError, Stream, decode
from tests.read.tfrecord_core import (
    decode_blocks,
    decode_records,
    find_offsets,
    read_records,
)

from sweephand import DataError, StaleError, _core, tfrecord

TOKENS = Stream("tokens", "int64", is_sequence=True, is_required=False)
LABEL = Stream("label", "int64")
BOX = Stream("box", "float", sample_elements=2, is_required=False)
TEXT = Stream("text", "bytes", is_sequence=True, is_required=False)
STREAMS = [TOKENS, LABEL, BOX, TEXT]
EXAMPLES = [
    {"tokens": [1, -1, 300, 2**40], "label": 7, "box": [0.5, -2.0], "text": [b"ab", b""]},
    {"label": 0, "other": [1.5], "tokens": np.arange(100)},
    {"box": [1.0, 2.0], "label": [-(2**63)], "text": "\u00e9", "tokens": [2**63 - 1]},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "corpus.tfrecord"


def field(number: int, content: bytes, wire_type: int = 2) -> bytes:
    head = bytes([number << 3 | wire_type])
    return head + (bytes([len(content)]) if wire_type == 2 else b"") + content


def example(*features: tuple[bytes, bytes]) -> bytes:
    entries = [field(1, field(1, key) + field(2, feature)) for key, feature in features]
    return field(1, b"".join(entries))


def ints(*values: int) -> bytes:
    return field(3, field(1, bytes(values)))


# -- narrow integers --
@pytest.mark.parametrize(
    ("lists", "dtype"),
    [
        ([[], [0, 65535]], "uint16"),
        ([[1, 65536]], "int32"),
        ([[3], [-1, 2**31 - 1], [4]], "int32"),
        ([[-(2**31)], [5]], "int32"),
        ([[7], [2**31], [8]], "int64"),
        ([[7], [-1], [2**31, -(2**63)], [8]], "int64"),
        ([[7], [-(2**31) - 1], [2**63 - 1]], "int64"),
    ],
)
def test_integers_come_in_the_narrowest_type_that_holds_all(
    path: Path, lists: list[list[int]], dtype: str
) -> None:
    tfrecord.write(path, [{"tokens": one} for one in lists])
    ledger = _core.formats.Ledger(0)
    ((values, sample_offsets, _, _),) = decode_records(path, [TOKENS], ledger, may_narrow=True)
    assert values.dtype == dtype
    assert [part.tolist() for part in np.split(values, sample_offsets[1:-1])] == lists


# -- checksums --
def test_the_checksum_is_the_published_one() -> None:
    assert _core.formats.crc32c(b"123456789") == 0xE3069283
    assert _core.formats.mask_crc(0xE3069283) == 0xC78AB0E5


@settings(max_examples=50)
@given(size=st.integers(0, 10000), begin=st.integers(0, 16), seed=st.integers(0, 99))
def test_tables_and_instruction_agree(size: int, begin: int, seed: int) -> None:
    data = np.random.default_rng(seed).integers(0, 256, begin + size, np.uint8)[begin:]
    assert _core.formats.crc32c(data) == _core.testing.crc32c_portable(data)


# -- frames --
def test_a_frame_is_the_published_one() -> None:
    assert (
        tfrecord.encode_record(b"").hex(" ")
        == "00 00 00 00 00 00 00 00 29 03 98 07 d8 ea 82 a2"
    )


def test_what_is_written_is_read(path: Path) -> None:
    assert tfrecord.write(path, EXAMPLES) == 3
    found = read_records(path, STREAMS)
    expected = [decode(tfrecord.encode_example(one), STREAMS) for one in EXAMPLES]
    assert found == expected
    assert found[0] == [
        [[1], [-1], [300], [2**40]],
        [[7]],
        [[0.5, -2.0]],
        [[b"ab"], [b""]],
    ]
    assert found[1][2] == []
    assert found[2][3] == [["\u00e9".encode()]]
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupted_writer_leaves_nothing(path: Path) -> None:
    with pytest.raises(ValueError, match="mixes bytes"):
        tfrecord.write(path, [{"a": 1}, {"a": [1, "x"]}])
    assert list(path.parent.iterdir()) == []


def test_a_file_cut_anywhere_but_between_records_is_an_error(path: Path) -> None:
    tfrecord.write(path, EXAMPLES[::2])
    data = path.read_bytes()
    offsets = find_offsets(path).tolist()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        if size in offsets:
            assert len(read_records(path, STREAMS)) == offsets.index(size)
            continue
        with pytest.raises(DataError, match="the file ends") as caught:
            read_records(path, STREAMS)
        number = sum(offset <= size for offset in offsets) - 1
        assert (caught.value.offset, caught.value.sequence) == (offsets[number], number)


def test_any_flipped_bit_is_an_error_with_its_record(path: Path) -> None:
    tfrecord.write(path, EXAMPLES[::2])
    data = path.read_bytes()
    offsets = find_offsets(path).tolist()
    for place in sample(range(len(data)), 40):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(DataError, match="checksum") as caught:
                read_records(path, STREAMS)
            number = sum(offset <= place for offset in offsets) - 1
            assert (caught.value.offset, caught.value.sequence) == (offsets[number], number)
            assert caught.value.file == str(path)


@pytest.mark.parametrize("length", [2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**64 - 16])
def test_a_length_that_lies_under_a_right_checksum_takes_no_memory(
    path: Path, length: int
) -> None:
    head = struct.pack("<Q", length)
    crc = struct.pack("<I", _core.formats.mask_crc(_core.formats.crc32c(head)))
    path.write_bytes(head + crc + b"x" * 100)
    with pytest.raises(DataError, match=f"the record has {length} bytes, but the file ends"):
        read_records(path, STREAMS)


@pytest.mark.parametrize("piece", [1, 7, 12, 13, 65536])
def test_heads_are_found_over_large_and_many_records(path: Path, piece: int) -> None:
    sizes = [0, 1, 65535, 65536, 65537, 200000, *[5] * 2000, 300000, 0]
    tfrecord.write(path, [bytes(size) for size in sizes])
    offsets = find_offsets(path, piece)
    assert (np.diff(offsets) - 16).tolist() == sizes


@pytest.mark.parametrize("damaged", [None, 3, 700, 1999])
def test_records_read_in_blocks_are_those_in_memory(path: Path, damaged: int | None) -> None:
    rng = np.random.default_rng(0)
    sizes = [*rng.integers(0, 300, 2000), 300_000, 7]  # several blocks, and a longer record
    rows = (
        {
            "tokens": rng.integers(0, 2**17, size),
            "label": i,
            "box": [i, 0.5],
            "text": "t" * (i % 9),
        }
        for i, size in enumerate(sizes)
    )
    tfrecord.write(path, rows)
    offsets = find_offsets(path)
    if damaged is not None:
        data = bytearray(path.read_bytes())
        data[int(offsets[damaged]) + 20] ^= 1
        path.write_bytes(data)
    ledgers = _core.formats.Ledger(2), _core.formats.Ledger(2)
    expected = decode_records(path, STREAMS, ledgers[0], may_narrow=True)
    found = decode_blocks(path, STREAMS, ledgers[1], may_narrow=True)
    for one, other in zip(expected, found, strict=True):
        for wanted, array in zip(one, other, strict=True):
            np.testing.assert_array_equal(wanted, array)
    items = [
        [(item.reason, item.sequence, item.offset) for item in one.items] for one in ledgers
    ]
    assert items[0] == items[1]
    assert [place[1] for place in items[1]] == ([] if damaged is None else [damaged])


def test_records_that_end_too_early_are_stale(path: Path) -> None:
    tfrecord.write(path, EXAMPLES)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StaleError, match="more than its index says") as caught:
        decode_records(path, STREAMS, _core.formats.Ledger(0))
    assert caught.value.sequence == 2


# -- messages --
def read_message(path: Path, message: bytes, streams: list[Stream]) -> list[list[list[object]]]:
    tfrecord.write(path, [message])
    return read_records(path, streams)[0]


def assert_as_the_model(path: Path, message: bytes, streams: list[Stream]) -> None:
    try:
        expected = decode(message, streams)
    except DamagedError:
        with pytest.raises(DataError):
            read_message(path, message, streams)
        return
    found = read_message(path, message, streams)
    assert repr(found) == repr(expected)  # NaN is not equal to itself


PACKED_TWICE = field(3, field(1, b"\x01\x02") + field(1, b"\x03") + field(1, b"\x04", 0))


@pytest.mark.parametrize(
    ("message", "samples"),
    [
        # Where TensorFlow's two parsers differ: all runs are joined, packed or not.
        (example((b"tokens", PACKED_TWICE)), [[1], [2], [3], [4]]),
        # The last kind counts, and ends what was there of the same kind before.
        (example((b"tokens", field(2, field(1, bytes(4))) + ints(5))), [[5]]),
        (example((b"tokens", ints(1) + field(2, b"") + ints(5))), [[5]]),
        (example((b"tokens", ints(1) + ints(2))), [[1], [2]]),
        # The last entry of a key counts.
        (example((b"tokens", ints(1)), (b"tokens", ints(2))), [[2]]),
        # Unknown fields are passed over.
        (field(9, b"x") + example((b"tokens", field(7, b"\x01", 0) + ints(3))), [[3]]),
        (example((b"tokens", ints(3))) + field(2, bytes(8), 1), [[3]]),
        # A map may come in parts, and a value too: its parts are merged.
        (example((b"a", ints(1))) + example((b"tokens", ints(4))), [[4]]),
        (
            field(1, field(1, field(1, b"tokens") + field(2, ints(1)) + field(2, ints(2)))),
            [[1], [2]],
        ),
        # No kind at all, no feature at all, no message at all.
        (example((b"tokens", b"")), []),
        # A list without bytes is one of any kind.
        (example((b"tokens", field(1, b""))), []),
        (example(), []),
        (b"", []),
        (example((b"tokens", field(3, b""))), []),
        # A varint need not be the shortest.
        (example((b"tokens", ints(0x81, 0x80, 0x00))), [[1]]),
    ],
)
def test_an_edge_of_the_message_is_decided(
    path: Path, message: bytes, samples: list[list[int]]
) -> None:
    assert read_message(path, message, [TOKENS]) == [samples]
    assert_as_the_model(path, message, [TOKENS])


@pytest.mark.parametrize(
    "feature",
    [
        ints(0x80),
        ints(*[0xFF] * 9, 0x02),
        ints(*[0xFF] * 10, 0x01),
        field(3, field(1, b"", 3)),
        field(3, b"\x0a\x7f\x01"),
        field(3, b"\x02\x00"),
        b"\x80",
        field(2, field(1, bytes(4))),
        field(1, field(1, b"")),
    ],
    ids=repr,
)
def test_a_damaged_message_is_an_error_with_its_stream(path: Path, feature: bytes) -> None:
    with pytest.raises(DataError) as caught:
        read_message(path, example((b"tokens", feature)), [TOKENS])
    assert (caught.value.stream, caught.value.sequence, caught.value.offset) == ("tokens", 0, 0)


SEQUENCE_MESSAGE = tfrecord.encode_sequence_example(
    {"label": 7, "tokens": 3},
    {"tokens": [1, -1, 300], "box": [[0.5, -2.0], [1.0, 3.0]], "text": [b"ab", b""]},
)
SEQUENCE_STREAMS = [
    Stream("feature_lists/tokens", "int64", is_sequence=True, is_required=False),
    Stream("context/tokens", "int64"),
    LABEL,
    Stream("box", "float", sample_elements=2, is_sequence=True),
    TEXT,
]


MESSAGES = [
    (tfrecord.encode_example(EXAMPLES[0]), STREAMS),
    (SEQUENCE_MESSAGE, SEQUENCE_STREAMS),
]


@pytest.mark.parametrize(("message", "streams"), MESSAGES, ids=["example", "sequence example"])
def test_a_message_that_is_cut_or_flipped_anywhere_is_as_the_model_says(
    path: Path, message: bytes, streams: list[Stream]
) -> None:
    for place in sample(range(len(message)), 30):
        assert_as_the_model(path, message[:place], streams)
        for bit in range(8):
            flipped = bytearray(message)
            flipped[place] ^= 1 << bit
            assert_as_the_model(path, bytes(flipped), streams)


@settings(max_examples=draws(300))
@given(
    which=st.sampled_from(MESSAGES),
    edits=st.lists(
        st.tuples(st.integers(0, 120), st.integers(0, 6), st.binary(max_size=6)), max_size=4
    ),
)
def test_an_edited_message_is_as_the_model_says(
    tmp_path_factory: pytest.TempPathFactory,
    which: tuple[bytes, list[Stream]],
    edits: list[tuple[int, int, bytes]],
) -> None:
    message = bytearray(which[0])
    for place, size, piece in edits:
        message[place : place + size] = piece
    path = tmp_path_factory.getbasetemp() / "edited.tfrecord"
    assert_as_the_model(path, bytes(message), which[1])


@pytest.mark.parametrize(
    ("lists", "stream"),
    [
        ({"tokens": [1, [2, 3]]}, TOKENS),
        ({"tokens": [1, []]}, TOKENS),
        ({"tokens": [1, 2.5]}, TOKENS),
        ({"other": [1]}, TOKENS),
        ({"label": [1]}, LABEL),  # in the context, too
        ({"box": [[1.0, 2.0]] * 2}, BOX),
    ],
)
def test_a_feature_list_that_does_not_fit_is_named(
    path: Path, lists: dict, stream: Stream
) -> None:
    message = tfrecord.encode_sequence_example({"label": 1}, lists)
    with pytest.raises(DataError) as caught:
        read_message(path, message, [stream])
    assert (caught.value.stream, caught.value.sequence) == (stream.key, 0)
    assert_as_the_model(path, message, [stream])
