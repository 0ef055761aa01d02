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

import errno
import hashlib
import json
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from sweephand import Attention, ByScore, DataError, Minibatch, MinibatchSource
from sweephand.ext.follow.ledger.step_log import worker_files
from sweephand.extend import (
    HashingSink,
    Plan,
    SavedFile,
    _core,
    digest_of,
    layout_by_name,
    open_regular,
    sum_of_digests,
    to_json,
)

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


# The description of each part in the header, for readers who have only the file.
PART_DESCRIPTIONS = {
    "chain": "BLAKE2b-128 of the chain before (first: of this header) and the next 48 bytes",
    "step": "u32, from 1; 0 in the seal that ends a closed file",
    "events": "first 4 bytes of the digest of events that are not behind begin; 0 if none",
    "begin": "u64, nominal time at which the global minibatch begins",
    "request": "u64, samples asked for; bit 63: ends with its sweep; other bits all 1: a sweep",
    "ids": "BLAKE2b-64 of u64 count | u64 sequence ... | u32 samples ... | of rows u32 cells",
    "content": "sum modulo 2^64 of BLAKE2b-64 of the sequences of this worker; 0 if not taken",
    "control": "BLAKE2b-32 of JSON with sorted keys and no spaces; 0 if none was given",
    "parameters": "BLAKE2b-32 of model.safetensors as a checkpoint has it; 0 if not taken",
}


def hash_ids(plan: _core.compose.Plan | _core.engine.Batch) -> bytes:
    """Return the hash of a plan for all workers."""
    found = hashlib.blake2b(plan.share_size.to_bytes(8, "little"), digest_size=8)
    found.update(plan.sequences().astype("<u8", copy=False).data)
    found.update(plan.sizes().astype("<u4", copy=False).data)
    if plan.num_rows:
        found.update(plan.cells().astype("<u4", copy=False).data)
    return found.digest()


def hash_content(minibatch: Minibatch, streams: list[str]) -> bytes:
    """Return the sum of digests of a share's sequences in the given streams."""
    return sum_of_digests(minibatch, streams).to_bytes(8, "little")


def sum_contents(one: bytes, other: bytes) -> bytes:
    """Return the content of two shares together."""
    total = int.from_bytes(one, "little") + int.from_bytes(other, "little")
    return (total % 2**64).to_bytes(8, "little")


def hash_events(plan: Plan, time: int) -> bytes:
    """Return the hash of the events up to a nominal time."""
    events = plan.events
    if not events:
        return NO_EVENTS
    count = bisect_right(events.in_time, time, key=attrgetter("at"))
    return bytes.fromhex(digest_of(events.in_time[:count]))[:4] or NO_EVENTS


def hash_control(control: Mapping[str, Any] | None) -> bytes:
    """Return the hash of the decisions."""
    if control is None:
        return NO_CONTROL
    text = to_json(control, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=4).digest()


def hash_parameters(parameters: SavedFile) -> bytes:
    """Return the hash of the file of parameters of a checkpoint."""
    found = hashlib.blake2b(digest_size=4)
    parameters.write(HashingSink(found))
    return found.digest()


FORMAT = "sweephand receipts"
VERSION = 1
_LARGEST = 1 << 24


@dataclass(frozen=True)
class Header:
    """The header of a file of receipts."""

    worker: int  # whose file it is
    start: dict[str, Any]  # `step`, nominal `time` and `progress` of the first minibatch
    streams: list[str] | None  # whose content is taken; None if it is not
    # what decides which sequence comes when, but for events: `Plan.order_description`
    order: dict[str, Any]
    options: dict[str, Any]  # of the source: `SourceOptions.to_json`

    def packed(self) -> bytes:
        """Return the line of JSON."""
        fields = {
            "format": FORMAT,
            "version": VERSION,
            **asdict(self),
            "parts": PART_DESCRIPTIONS,
        }
        text = to_json(fields, default=_plain).encode()
        return text + b" " * (-(len(text) + 1) % BYTES) + b"\n"

    @classmethod
    def read(cls, content: memoryview, path: str) -> tuple[Self, int] | None:
        """Return the header of a file, and where it ends; None if it is torn, or not there."""
        line = bytes(content[:_LARGEST])
        end = line.find(b"\n") + 1
        if end == 0:
            return None
        try:
            fields = json.loads(line[:end])
            if fields.pop("format") != FORMAT or end % BYTES:
                raise ValueError("another format")
            version = fields.pop("version")
            if version == VERSION:
                del fields["parts"]
                return cls(**fields)._checked(), end
        except (
            ValueError, KeyError, TypeError, AttributeError, RecursionError
        ) as error:  # fmt: skip
            reason = f"its header has no {error}" if isinstance(error, KeyError) else error
            raise DataError(f"this is no file of receipts: {reason}", path, 0) from error
        raise DataError(
            f"these receipts have version {version}, this version of sweephand reads {VERSION}",
            path,
            0,
        )

    def _checked(self) -> Self:
        """Return it; TypeError or ValueError if a value is not of its kind."""
        kinds = {"worker": int, "start": dict, "order": dict, "options": dict}
        for name, kind in kinds.items():
            if type(getattr(self, name)) is not kind:
                raise TypeError(f"its {name} is {getattr(self, name)!r:.100}")
        if self.start.keys() != {"step", "time", "progress"}:
            raise ValueError(f"its start has {', '.join(map(repr, self.start))}")
        progress = self.start["progress"]
        if not isinstance(progress, list):
            raise TypeError(f"its progress is {progress!r:.100}")
        for number in (self.worker, self.start["step"], self.start["time"], *progress):
            if type(number) is not int or not 0 <= number < 2**63:
                raise ValueError(f"it has {number!r:.100} where a count should be")
        streams: Any = self.streams
        if streams is not None and (
            not isinstance(streams, list) or {type(name) for name in streams} - {str}
        ):
            raise TypeError(f"its streams are {streams!r:.100}")
        return self

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


def source_of(
    header: Header,
    corpus: Any,
    *,
    seed: int | None = None,
    order: ByScore | None = None,
    events: Path | None = None,
) -> MinibatchSource:
    """Return a source over a corpus, with the options of a header.

    A seed is taken in place of that of the header. Scores and events are in no header.
    ValueError is raised if the header has options that no source has.
    """
    options = dict(header.options)
    try:
        options["layout"] = _layout_or_cost(options["layout"])
        options["balance"] = _layout_or_cost(options["balance"])
        if seed is not None:
            options["randomization_seed"] = seed
        return MinibatchSource(corpus, order=order, events=events, **options)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the header of the receipts has no options: {error}") from error


def _layout_or_cost(fields: Any) -> Any:
    """Return the layout or cost that the fields of a header describe."""
    if not isinstance(fields, dict):
        return fields
    values = dict(fields)
    kind = values.pop("kind")
    if kind == "Attention":
        return Attention(**values)
    return layout_by_name(kind, values)


SUFFIX = ".receipts"


class Link(NamedTuple):
    """A receipt as a file has it."""

    number: int  # how many are before it
    receipt: Receipt
    # its chain, and what it must be: the chain is broken where they differ
    chain: bytes
    wanted: bytes


@dataclass(frozen=True)
class ReceiptsOfWorker:
    """The receipts that one worker has written."""

    path: Path
    header: Header
    content: memoryview
    begin: int  # of the first receipt

    def links(self) -> Iterator[Link]:
        """Yield all receipts and the seal or mark, each chained to the bytes before it."""
        chain = first_chain(self.content[: self.begin])
        for number, (found, data) in enumerate(receipts_in(self.content, self.begin)):
            yield Link(number, Receipt.unpacked(data), found, next_chain(chain, data))
            chain = found

    @property
    def head(self) -> bytes:
        """The chain of the last receipt before the seal or mark."""
        for at in range(self.begin + self._num_whole * BYTES, self.begin, -BYTES):
            data = self.content[at - BYTES : at]
            if not Receipt.unpacked(data[CHAIN_BYTES:]).is_end:
                return bytes(data[:CHAIN_BYTES])
        return first_chain(self.content[: self.begin])

    @property
    def _num_whole(self) -> int:
        return (len(self.content) - self.begin) // BYTES

    @cached_property
    def by_step(self) -> dict[int, Receipt]:
        """Receipts by their steps."""
        return {link.receipt.step: link.receipt for link in self.links()}


def read_file(path: Path) -> ReceiptsOfWorker:
    """Return the receipts in a file."""
    with open_regular(path) as file:
        content = memoryview(file.read())
    found = Header.read(content, str(path))
    if found is None:
        if len(content):
            raise DataError("the header of this file of receipts is torn", str(path), 0)
        raise FileNotFoundError(errno.ENOENT, "there are no receipts yet", str(path))
    return ReceiptsOfWorker(path, found[0], content, found[1])


def read_receipts(folder: Path) -> list[ReceiptsOfWorker]:
    """Return the receipts of all workers, the first one's first."""
    files = worker_files(folder, SUFFIX)
    if 0 not in files:
        reason = f"there are no receipts: no file 0{SUFFIX} in this folder"
        raise FileNotFoundError(errno.ENOENT, reason, os.fspath(folder))
    return [read_file(path) for path in files.values()]
