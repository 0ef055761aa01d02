"""docs/receipts.md in plain Python: a stranger's audit, with hashlib, NumPy and the model.

Nothing of the library is imported.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tests import model, model_layouts
from tests.model import ModelCorpus, ModelSettings

MASK = 2**64 - 1


class Planned(NamedTuple):
    """A sequence, or a piece of one, of a minibatch."""

    sequence: int
    size: int
    row: int = 0
    column: int = 0
    first: int = 0
    whole: int = 0


class Receipt(NamedTuple):
    chain: bytes
    step: int
    begin: int
    request: int
    ids: bytes
    content: int


def blake(size: int, *parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=size).digest()


def header_of(file: bytes) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(file[: file.index(b"\n")])
    return told


def receipts_of(file: bytes) -> list[Receipt]:
    """All receipts, once the chain was looked at."""
    begin = file.index(b"\n") + 1
    assert begin % 64 == 0
    assert len(file) % 64 == 0
    chain = blake(16, file[:begin])
    found = []
    for at in range(begin, len(file), 64):
        chain = blake(16, chain, file[at + 16 : at + 64])
        receipt = Receipt(*struct.unpack("<16sQQQ16sQ", file[at : at + 64]))
        assert receipt.chain == chain
        found.append(receipt)
    return found


def text(value: str) -> bytes:
    return len(value.encode()).to_bytes(8, "little") + value.encode()


def fingerprint_of_ids(ids: Sequence[str]) -> str:
    digests = []
    for name in ids:
        h = 0xCBF29CE484222325
        for byte in name.encode():
            h = (h ^ byte) * 0x100000001B3 & MASK
        digests.append(h)
    return f"ids {blake(16, np.array(digests, '<u8').tobytes()).hex()}"


def fingerprint_of_shards(sizes: Mapping[str, int]) -> str:
    parts, start = [], 0
    for name, size in sizes.items():
        parts += [text(name), start.to_bytes(8, "little")]
        start += size
    return f"shards {blake(16, *parts, start.to_bytes(8, 'little')).hex()}"


def fingerprint_of_corpora(own: Mapping[str, str]) -> str:
    parts = [text(name) + text(told) for name, told in own.items()]
    return f"corpora {blake(16, *parts).hex()}"


def fingerprint_of_frames(own: str, sizes: Sequence[int]) -> str:
    offsets = np.cumsum([0, *sizes]).astype("<u8")
    return f"frames {blake(16, text(own), offsets.tobytes()).hex()}"


def settings_of(header: Mapping[str, Any]) -> ModelSettings:
    order = header["order"]
    count, _, unit = order["window"].partition(" ")
    return ModelSettings(
        seed=order["seed"],
        num_lanes=order["num_lanes"],
        window_chunks=int(count) if unit == "chunks" else None,
        window_samples=int(count) if unit == "samples" else None,
        randomize=order["randomize"],
    )


def ids_of(planned: Sequence[Planned], *, has_rows: bool) -> bytes:
    parts = [
        np.array([len(planned)], "<u8"),
        np.array([one.sequence for one in planned], "<u8"),
        np.array([one.size for one in planned], "<u4"),
    ]
    if has_rows:
        cells = [(one.row, one.column, one.first, one.whole) for one in planned]
        parts.append(np.array(cells, "<u4"))
    return blake(16, *(part.tobytes() for part in parts))


def content_of(name: str, streams: Mapping[str, NDArray[Any]], first: int = 0) -> int:
    """The number that a sequence, or a piece of one, adds to the content."""
    parts = [name.encode(), first.to_bytes(8, "little")]
    for stream in sorted(streams):
        values = streams[stream]
        little = values.astype(values.dtype.newbyteorder("<"))
        parts += [
            stream.encode(),
            f"{values.dtype.name} {values.shape}".encode(),
            little.tobytes(),
        ]
    prefixed = itertools.chain.from_iterable(
        (len(part).to_bytes(8, "little"), part) for part in parts
    )
    return int.from_bytes(blake(8, *prefixed), "little")


def asked(receipt: Receipt) -> tuple[int, bool]:
    """The request, and whether the minibatch may cross the end of a sweep."""
    samples = receipt.request & (2**63 - 1)
    to_end = model.FULL_DATA_SWEEP if samples == 2**63 - 1 else samples
    return to_end, receipt.request < 2**63


Plan = Callable[[Receipt], list[Planned]]


def in_sequences(corpus: ModelCorpus, settings: ModelSettings) -> Plan:
    def plan(receipt: Receipt) -> list[Planned]:
        samples, crosses = asked(receipt)
        entries = model.minibatch(
            corpus, settings, receipt.begin, samples, cross_sweeps=crosses
        )
        return [Planned(entry.sequence, entry.size) for entry in entries]

    return plan


def in_rows(corpus: ModelCorpus, settings: ModelSettings, length: int) -> Plan:
    def rows() -> Iterator[model_layouts.Row]:
        for sweep in itertools.count():
            yield from model_layouts.packed_sweep(corpus, settings, length, 64, sweep)

    def plan(receipt: Receipt) -> list[Planned]:
        from_here = itertools.dropwhile(lambda row: row.time < receipt.begin, rows())
        count = max(1, asked(receipt)[0] // length)
        found = []
        for number, row in enumerate(itertools.islice(from_here, count)):
            column = 0
            for piece in row.pieces:
                whole = corpus.sizes[piece.sequence]
                found.append(
                    Planned(piece.sequence, piece.size, number, column, piece.first, whole)
                )
                column += piece.size
        return found

    return plan


def audit(file: bytes, plan: Plan, *, has_rows: bool = False) -> list[list[Planned]]:
    """What each step had, by the model; AssertionError where receipts say something else."""
    start = header_of(file)["start"]
    step, time = start["step"], start["time"]
    found = []
    for receipt in receipts_of(file):
        assert (receipt.step, receipt.begin) == (step, time)
        planned = plan(receipt)
        assert receipt.ids == ids_of(planned, has_rows=has_rows)
        found.append(planned)
        step, time = step + 1, time + sum(one.size for one in planned)
    return found
