"""tf.train.Example messages parsed in plain Python: what the core must agree with."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

Field = tuple[int, int, bytes]
KINDS = {1: "bytes", 2: "float", 3: "int64"}


@dataclass
class Stream:
    key: str
    kind: str
    sample_elements: int = 1
    is_sequence: bool = False
    is_required: bool = True


class DamagedError(Exception):
    pass


def read_varint(data: bytes) -> tuple[int, int]:
    """Return the value and its size in bytes."""
    value = 0
    for size, byte in enumerate(data[:10], start=1):
        value |= (byte & 0x7F) << (7 * (size - 1))
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, size
    raise DamagedError("varint")


def read_varints(data: bytes) -> list[int]:
    values = []
    while data:
        value, size = read_varint(data)
        values.append(value - 2**64 if value >= 2**63 else value)
        data = data[size:]
    return values


def fields(data: bytes) -> Iterator[Field]:
    """Yield number, wire type and content; of a number its encoded bytes."""
    while data:
        tag, size = read_varint(data)
        data = data[size:]
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag >= 2**32:
            raise DamagedError("number")
        if wire_type == 2:
            length, size = read_varint(data)
            data = data[size:]
        elif wire_type == 0:
            length = read_varint(data)[1]
        elif wire_type in (1, 5):
            length = 8 if wire_type == 1 else 4
        else:
            raise DamagedError("wire type")
        if length > len(data):
            raise DamagedError("length")
        yield number, wire_type, data[:length]
        data = data[length:]


def read_features(message: bytes) -> dict[bytes, bytes]:
    features = {}
    for number, wire_type, content in fields(message):
        if (number, wire_type) != (1, 2):
            continue
        for entry_number, entry_type, entry in fields(content):
            if (entry_number, entry_type) != (1, 2):
                continue
            parts = [part for part in fields(entry) if part[1] == 2]
            keys = [part for part_number, _, part in parts if part_number == 1]
            values = [part for part_number, _, part in parts if part_number == 2]
            # Message fields that come twice are merged: their bytes joined.
            features[keys[-1] if keys else b""] = b"".join(values)
    return features


def read_list(kind: str, content: bytes) -> list[object]:
    values: list[object] = []
    for number, wire_type, data in fields(content):
        if number != 1:
            continue
        if kind == "bytes" and wire_type == 2:
            values.append(data)
        elif kind == "int64" and wire_type in (0, 2):
            values += read_varints(data)
        elif kind == "float" and wire_type in (2, 5):
            if len(data) % 4:
                raise DamagedError("floats")
            values += struct.unpack(f"<{len(data) // 4}f", data)
    return values


def decode(message: bytes, streams: list[Stream]) -> list[list[list[object]]]:
    """Return the samples of every stream."""
    features = read_features(message)
    columns = []
    for stream in streams:
        feature = features.get(stream.key.encode(), b"")
        lists = [
            (KINDS[number], content)
            for number, wire_type, content in fields(feature)
            if wire_type == 2 and number in KINDS
        ]
        if not lists:
            if stream.is_required:
                raise DamagedError("lacks")
            columns.append([])
            continue
        kind = lists[-1][0]
        first = len(lists)
        while first > 0 and lists[first - 1][0] == kind:
            first -= 1
        if kind != stream.kind and any(content for _, content in lists[first:]):
            raise DamagedError("kind")
        values = [value for _, content in lists[first:] for value in read_list(kind, content)]
        size = stream.sample_elements
        if len(values) % size if stream.is_sequence else len(values) != size:
            raise DamagedError("shape")
        columns.append([values[i : i + size] for i in range(0, len(values), size)])
    return columns
