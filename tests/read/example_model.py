"""tf.train.Example and SequenceExample in plain Python: what the core must agree with."""

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


def read_map(message: bytes, part: int) -> dict[bytes, bytes]:
    """Return the features (part 1) or feature lists (part 2) by their keys."""
    found = {}
    for number, wire_type, content in fields(message):
        if (number, wire_type) != (part, 2):
            continue
        for entry_number, entry_type, entry in fields(content):
            if (entry_number, entry_type) != (1, 2):
                continue
            parts = [part for part in fields(entry) if part[1] == 2]
            keys = [part for part_number, _, part in parts if part_number == 1]
            values = [part for part_number, _, part in parts if part_number == 2]
            # Message fields that come twice are merged: their bytes joined.
            found[keys[-1] if keys else b""] = b"".join(values)
    return found


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


def find(message: bytes, key: str, wanted: set[str]) -> tuple[bytes | None, bool]:
    """Return the feature or the list of a stream, and whether it is a list."""
    context, lists = read_map(message, 1), read_map(message, 2)
    name = key.encode()
    if name in context and name in lists:
        raise DamagedError("twice")
    if name in context or name in lists:
        return context.get(name, lists.get(name)), name in lists
    for part, found in (("context/", context), ("feature_lists/", lists)):
        rest = key.removeprefix(part)
        if rest != key and rest not in wanted and rest.encode() in found:
            return found[rest.encode()], part != "context/"
    return None, False


def read_feature(feature: bytes, kind: str) -> list[object] | None:
    """Return the values; None if there is no list of any kind."""
    lists = [
        (KINDS[number], content)
        for number, wire_type, content in fields(feature)
        if wire_type == 2 and number in KINDS
    ]
    if not lists:
        return None
    last = lists[-1][0]
    first = len(lists)
    while first > 0 and lists[first - 1][0] == last:
        first -= 1
    if last != kind and any(content for _, content in lists[first:]):
        raise DamagedError("kind")
    return [value for _, content in lists[first:] for value in read_list(last, content)]


def read_steps(feature_list: bytes, stream: Stream) -> list[list[object]]:
    steps = []
    for number, wire_type, feature in fields(feature_list):
        if (number, wire_type) != (1, 2):
            continue
        values = read_feature(feature, stream.kind) or []
        if len(values) != stream.sample_elements:
            raise DamagedError("step")
        steps.append(values)
    if not stream.is_sequence and len(steps) != 1:
        raise DamagedError("steps")
    return steps


def decode(message: bytes, streams: list[Stream]) -> list[list[list[object]]]:
    """Return the samples of every stream."""
    is_sequence_example = any(one[:2] == (2, 2) for one in fields(message))
    wanted = {stream.key for stream in streams}
    columns = []
    for stream in streams:
        feature, is_list = find(message, stream.key, wanted)
        if feature is not None and is_list:
            columns.append(read_steps(feature, stream))
            continue
        values = read_feature(feature or b"", stream.kind)
        if values is None:
            if stream.is_required or (is_sequence_example and feature is None):
                raise DamagedError("lacks")
            columns.append([])
            continue
        size = stream.sample_elements
        if len(values) % size if stream.is_sequence else len(values) != size:
            raise DamagedError("shape")
        columns.append([values[i : i + size] for i in range(0, len(values), size)])
    return columns
