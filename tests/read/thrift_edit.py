"""Changing one number of a Thrift message in the compact protocol, whatever it means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12

Field = tuple[tuple[int, ...], int]
"""Where a number stands, as ids of fields and places in lists, and what it is."""


class Message:
    """A message, as structs of ``{id: (kind, value)}`` and lists of ``(kind, values)``."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self.root = self._struct()

    def numbers(self) -> Iterator[Field]:
        """Every integer, in the order of the message."""
        yield from _numbers(_STRUCT, self.root, ())

    def with_number(self, path: tuple[int, ...], number: int) -> bytes:
        """The message with another integer at a place."""
        return _write_struct(self.root, path, number)

    def _struct(self) -> dict[int, tuple[int, Any]]:
        fields = {}
        number = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._integer()
            fields[number] = kind, self._value(kind)
        return fields

    def _value(self, kind: int, in_list: bool = False) -> Any:
        if kind in (_TRUE, _FALSE):
            return self._byte() if in_list else None
        if kind == _BYTE:
            return self._byte()
        if kind < _DOUBLE:
            return self._integer()
        if kind in (_DOUBLE, _BINARY):
            size = 8 if kind == _DOUBLE else self._varint()
            self._at += size
            return self._content[self._at - size : self._at]
        if kind in (_LIST, _SET):
            head = self._byte()
            size = self._varint() if head >> 4 == 15 else head >> 4
            return head & 15, [self._value(head & 15, True) for _ in range(size)]
        assert kind == _STRUCT
        return self._struct()

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _numbers(kind: int, value: Any, path: tuple[int, ...]) -> Iterator[Field]:
    if kind == _STRUCT:
        for number, (inner, one) in value.items():
            yield from _numbers(inner, one, (*path, number))
    elif kind in (_LIST, _SET):
        for place, one in enumerate(value[1]):
            yield from _numbers(value[0], one, (*path, place))
    elif _FALSE < kind < _DOUBLE:
        yield path, value


def _write_struct(fields: dict[int, tuple[int, Any]], path: tuple[int, ...], new: int) -> bytes:
    content = b""
    before = 0
    for number, (kind, value) in fields.items():
        content += bytes([(number - before) << 4 | kind])
        inner = path[1:] if path[:1] == (number,) else ()
        content += _write(kind, value, inner, new, path[:1] == (number,))
        before = number
    return content + b"\0"


def _write(kind: int, value: Any, path: tuple[int, ...], new: int, on_path: bool) -> bytes:
    if value is None:
        return b""
    if kind == _STRUCT:
        return _write_struct(value, path, new)
    if kind in (_LIST, _SET):
        inner, items = value
        size = len(items)
        head = (
            bytes([size << 4 | inner]) if size < 15 else bytes([0xF0 | inner]) + _varint(size)
        )
        return head + b"".join(
            _write(inner, item, path[1:] if path[:1] == (i,) else (), new, path[:1] == (i,))
            for i, item in enumerate(items)
        )
    if kind == _BINARY:
        return _varint(len(value)) + bytes(value)
    if kind == _DOUBLE:
        return bytes(value)
    number = new if on_path and not path else value
    return bytes([number & 255]) if kind <= _BYTE else _varint(_zigzag(number))


def _zigzag(number: int) -> int:
    return (number << 1 ^ number >> 63) & (2**64 - 1)


def _varint(number: int) -> bytes:
    content = b""
    while number > 0x7F:
        content += bytes([number & 0x7F | 0x80])
        number >>= 7
    return content + bytes([number])
