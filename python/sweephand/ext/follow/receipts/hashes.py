"""The hashes of a receipt: of the inputs of a step."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from sweephand import Minibatch
from sweephand.ext.follow.receipts.receipt import NO_CONTROL, NO_EVENTS
from sweephand.extend import (
    HashingSink,
    Plan,
    SavedFile,
    _core,
    digest_of,
    sum_of_digests,
    to_json,
)

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
