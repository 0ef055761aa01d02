"""One receipt: 64 bytes for a step, each of which binds all before it.

::

    file   | header | receipt | receipt | ...
    header one line of JSON, filled up with spaces to a multiple of 64 bytes, newline included

    at  bytes
     0  16     chain    BLAKE2b-128 of the chain before, and of the 48 bytes that follow here
    16   8     step     from 1
    24   8     begin    nominal time at which the global minibatch begins
    32   8     request  samples that were asked for; bit 63: no further than the sweep
    40  16     ids      BLAKE2b-128 of what was planned, over all workers
    56   8     content  sum of BLAKE2b-64 of the sequences, or 0

All is little endian. The chain before the first receipt is BLAKE2b-128 of the header.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from sweephand import DataError
from sweephand.extend import Plan, decode, open_regular, to_json

FILE = "0.receipts"  # of a folder: the first worker's
BYTES = 64
TO_SWEEP_END = 2**64 - 1  # samples of a request, as the core has them

_LAYOUT = struct.Struct("<QQQ16sQ")  # after the chain
_ENDS_WITH_SWEEP = 1 << 63
_MOST_SAMPLES = _ENDS_WITH_SWEEP - 1  # means all that is left of the sweep


class Receipt(NamedTuple):
    """Receipt of one step."""

    step: int  # from 1
    begin: int  # nominal time at which its minibatch begins
    request: int  # what was asked for, as the file has it
    ids: bytes
    content: int

    @property
    def asked(self) -> tuple[int, bool]:
        """Requested samples, and True if a minibatch may cross the end of a sweep."""
        samples = self.request & _MOST_SAMPLES
        crosses_sweeps = not self.request & _ENDS_WITH_SWEEP
        return TO_SWEEP_END if samples == _MOST_SAMPLES else samples, crosses_sweeps

    def packed(self) -> bytes:
        """Return its bytes after the chain."""
        return _LAYOUT.pack(*self)


def request_of(num_samples: int, *, crosses_sweeps: bool) -> int:
    """Return the request as a receipt holds it."""
    return min(num_samples, _MOST_SAMPLES) | (0 if crosses_sweeps else _ENDS_WITH_SWEEP)


def chain_of(data: bytes | memoryview, before: bytes = b"") -> bytes:
    """Return the chain of a receipt by that of its predecessor, or that of a header."""
    return hashlib.blake2b(before + data, digest_size=16).digest()


def hash_ids(plan: Any) -> bytes:
    """Return the hash of a plan for all workers."""
    found = hashlib.blake2b(plan.share_size.to_bytes(8, "little"), digest_size=16)
    found.update(plan.sequences().astype("<u8", copy=False).data)
    found.update(plan.sizes().astype("<u4", copy=False).data)
    if plan.num_rows:
        found.update(plan.cells().astype("<u4", copy=False).data)
    return found.digest()


FORMAT = "sweephand receipts"
VERSION = 1
_LARGEST = 1 << 24


@dataclass(frozen=True)
class Start:
    """Where the first minibatch begins."""

    step: int
    time: int  # nominal
    progress: list[int]


@dataclass(frozen=True)
class Header:
    """The header of a file of receipts."""

    start: Start
    streams: list[str] | None  # whose content is taken; None if it is not
    # what decides which sequence comes when, but for events: `Plan.order_description`
    order: dict[str, Any]
    options: dict[str, Any]  # of the source: `SourceOptions.to_json`

    def packed(self) -> bytes:
        """Return the line of JSON."""
        fields = {"format": FORMAT, "version": VERSION, **asdict(self)}
        text = to_json(fields, default=_plain).encode()
        return text + b" " * (-(len(text) + 1) % BYTES) + b"\n"

    @classmethod
    def read(cls, content: memoryview, path: str) -> tuple[Self | None, int]:
        """Return the header of a file, and where it ends; None if it is torn, or not there."""
        line = bytes(content[:_LARGEST])
        end = line.find(b"\n") + 1
        if end == 0:
            return None, 0
        try:
            fields = json.loads(line[:end])
            if (fields["format"], fields["version"]) != (FORMAT, VERSION) or end % BYTES:
                raise ValueError(f"this version of sweephand reads {FORMAT} {VERSION}")
            found: Self = decode(cls, fields)
        except (
            ValueError, KeyError, TypeError, AttributeError, RecursionError
        ) as error:  # fmt: skip
            raise DataError(f"this is no file of receipts: {error!r}", path, 0) from error
        return found, end

    def difference(self, order: dict[str, Any]) -> str:
        """Describe how the order here differs from that of the receipts; "" if it does not."""
        return "; ".join(
            f"{name} is {order.get(name, '')!r:.100} here and "
            f"{self.order.get(name, '')!r:.100} in the receipts"
            for name in sorted(order.keys() | self.order.keys())
            if order.get(name, "") != self.order.get(name, "")
        )


def order_of(plan: Plan) -> dict[str, Any]:
    """Return the order of a plan as a header has it: of JSON types."""
    order: dict[str, Any] = json.loads(to_json(plan.order_description, default=_plain))
    return order


def _plain(value: object) -> object:
    """Return the JSON of a value of another type."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, set | frozenset) else str(value)


def read_receipts(folder: Path) -> tuple[Header, memoryview, int]:
    """Return the header of a folder's file, its content, and where the first receipt begins."""
    path = folder / FILE
    with open_regular(path) as file:
        content = memoryview(file.read())
    header, begin = Header.read(content, str(path))
    if header is None:
        raise DataError("there is no whole header of receipts", str(path), 0)
    return header, content, begin


def links_in(content: memoryview, begin: int) -> Iterator[tuple[Receipt, bytes, bytes]]:
    """Yield all whole receipts of a file, each with its chain, and what that must be."""
    chain = chain_of(content[:begin])
    for at in range(begin, len(content) - BYTES + 1, BYTES):
        found, data = bytes(content[at : at + 16]), content[at + 16 : at + BYTES]
        yield Receipt(*_LAYOUT.unpack(data)), found, chain_of(data, chain)
        chain = found


def head_of(content: memoryview, begin: int) -> str:
    """Return the last link of a chain, in hexadecimal digits."""
    end = len(content) - (len(content) - begin) % BYTES
    return (content[end - BYTES :][:16] if end > begin else chain_of(content[:begin])).hex()
