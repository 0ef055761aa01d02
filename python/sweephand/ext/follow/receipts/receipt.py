"""One receipt: 64 bytes for a step, each of which binds all before it.

::

    file   | header | receipt | receipt | ... | seal |
    header one line of JSON, filled up with spaces to a multiple of 64 bytes, newline included

    at  bytes
     0  16     chain       BLAKE2b-128 of the chain before, and of the 48 bytes that follow here
    16   4     step        from 1; 0 in the seal
    20   4     events      of the digest of the events up to here, or 0
    24   8     begin       nominal time at which the global minibatch begins
    32   8     request     samples that were asked for; bit 63: no further than the sweep
    40   8     ids         BLAKE2b-64 of what was planned, over all workers
    48   8     content     sum of BLAKE2b-64 of the sequences of this worker, or 0
    56   4     control     BLAKE2b-32 of what was decided, or 0
    60   4     parameters  BLAKE2b-32 of the file of parameters, or 0

All is little endian. The chain before the first receipt is BLAKE2b-128 of the header. A seal
ends a file that was closed: begin says where the next minibatch would, request how many
receipts there are, all else is 0. A file that a checkpoint was taken of, and that was not
closed, ends with a mark: the same, but for events, which is all ones. The next receipt is
written over it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import NamedTuple, Self

BYTES = 64
CHAIN_BYTES = 16
_MARK = b"\xff" * 4  # in place of events
NO_EVENTS = NO_CONTROL = NO_PARAMETERS = bytes(4)
NO_CONTENT = bytes(8)
TO_SWEEP_END = 2**64 - 1  # samples of a request, as the core has them

_LAYOUT = struct.Struct("<I4sQQ8s8s4s4s")  # after the chain
_ENDS_WITH_SWEEP = 1 << 63
_MOST_SAMPLES = _ENDS_WITH_SWEEP - 1  # means all that is left of the sweep


class Receipt(NamedTuple):
    """Receipt of one step, or the end of the file: a seal or a mark."""

    step: int  # from 1; 0 of a seal or mark
    # nominal time at which its minibatch begins; of a seal, at which the next one would
    begin: int
    # what was asked for, as the file has it; of a seal, how many receipts there are
    request: int
    # 8 of them
    ids: bytes = bytes(8)
    content: bytes = NO_CONTENT
    # 4 of them
    events: bytes = NO_EVENTS
    control: bytes = NO_CONTROL
    parameters: bytes = NO_PARAMETERS

    @property
    def is_seal(self) -> bool:
        """True if it ends the file."""
        return self.step == 0 and self.events != _MARK

    @property
    def is_end(self) -> bool:
        """True for a seal or a mark, and False for the receipt of a step."""
        return self.step == 0

    @classmethod
    def end(cls, position: int, num_receipts: int, *, is_mark: bool = False) -> Self:
        """Return the seal of `num_receipts` receipts, or the mark of a checkpoint."""
        return cls(0, position, num_receipts, events=_MARK if is_mark else NO_EVENTS)

    @property
    def asked(self) -> tuple[int, bool]:
        """Requested samples, and True if a minibatch may cross the end of a sweep."""
        samples = self.request & _MOST_SAMPLES
        crosses_sweeps = not self.request & _ENDS_WITH_SWEEP
        return TO_SWEEP_END if samples == _MOST_SAMPLES else samples, crosses_sweeps

    def packed(self) -> bytes:
        """Return its bytes after the chain."""
        return _LAYOUT.pack(
            self.step,
            self.events,
            self.begin,
            self.request,
            self.ids,
            self.content,
            self.control,
            self.parameters,
        )

    @classmethod
    def unpacked(cls, data: bytes | memoryview) -> Self:
        """Return a receipt by its bytes after the chain."""
        step, events, begin, request, ids, content, control, parameters = _LAYOUT.unpack(data)
        return cls(step, begin, request, ids, content, events, control, parameters)


def request_of(num_samples: int, *, crosses_sweeps: bool) -> int:
    """Return the request as a receipt holds it."""
    return min(num_samples, _MOST_SAMPLES) | (0 if crosses_sweeps else _ENDS_WITH_SWEEP)


def first_chain(header: bytes | memoryview) -> bytes:
    """Return the chain before the first receipt."""
    return hashlib.blake2b(header, digest_size=CHAIN_BYTES).digest()


def next_chain(chain: bytes, data: bytes | memoryview) -> bytes:
    """Return the chain of a receipt by that of its predecessor, and its own bytes."""
    return hashlib.blake2b(chain + data, digest_size=CHAIN_BYTES).digest()


def receipts_in(content: memoryview, begin: int) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the chain, and the bytes after it, of each whole receipt in a file."""
    for at in range(begin, len(content) - BYTES + 1, BYTES):
        yield bytes(content[at : at + CHAIN_BYTES]), content[at + CHAIN_BYTES : at + BYTES]
