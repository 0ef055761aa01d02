"""Whatever is done to a log of receipts, an audit finds it."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.follow.model_receipts import blake
from tests.extent import draws

import sweephand as sh

LENGTHS = np.random.default_rng(3).integers(1, 9, 60)
STEPS = 40
TAMPERED = 1000


def make_source(seed: int = 7) -> sh.MinibatchSource:
    sequences = [np.full(n, i, np.int16) for i, n in enumerate(LENGTHS)]
    corpus = sh.ArrayDeserializer({"x": sequences})
    return sh.MinibatchSource(corpus, randomization_seed=seed, num_threads=0)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("receipts")
    source = make_source()
    with sh.train.Receipts(folder, content=True) as receipts:
        for _ in range(STEPS):
            receipts.record(source.next_minibatch(15))
    return (folder / "0.receipts").read_bytes()


class Log:
    """A file of receipts that a forger has in parts: 48 bytes of each."""

    def __init__(self, file: bytes) -> None:
        self.begin = file.index(b"\n") + 1
        self.header = file[: self.begin]
        self.records = [file[at + 16 : at + 64] for at in range(self.begin, len(file), 64)]

    def chained(self) -> bytes:
        """The file with a chain that is whole."""
        chain = blake(16, self.header)
        parts = [self.header]
        for record in self.records:
            chain = blake(16, chain, record)
            parts += [chain, record]
        return b"".join(parts)

    def renumbered(self) -> bytes:
        """The same with steps in order."""
        self.records = [
            struct.pack("<Q", step) + record[8:] for step, record in enumerate(self.records, 1)
        ]
        return self.chained()


Rng = np.random.Generator


def flip_a_byte(file: bytes, rng: Rng) -> bytes:
    at = int(rng.integers(len(file)))
    flipped = file[at] ^ int(rng.integers(1, 256))
    return file[:at] + bytes([flipped]) + file[at + 1 :]


def truncate(file: bytes, rng: Rng) -> bytes:
    return file[: int(rng.integers(len(file)))]


def lengthen(file: bytes, rng: Rng) -> bytes:
    return file + rng.bytes(int(rng.integers(1, 200)))


def of_records(change: Callable[[list[Any], Rng], None]) -> list[Callable[[bytes, Rng], bytes]]:
    """A change of whole records, the chain left as it is, mended, or mended with the steps."""

    def left(file: bytes, rng: Rng) -> bytes:
        begin = file.index(b"\n") + 1
        records = [file[at : at + 64] for at in range(begin, len(file), 64)]
        change(records, rng)
        return file[:begin] + b"".join(records)

    def mended(file: bytes, rng: Rng) -> bytes:
        log = Log(file)
        change(log.records, rng)
        return log.chained()

    def renumbered(file: bytes, rng: Rng) -> bytes:
        log = Log(file)
        change(log.records, rng)
        return log.renumbered()

    return [left, mended, renumbered]


def swap(records: list[Any], rng: Rng) -> None:
    one, other = rng.choice(STEPS, 2, replace=False)
    records[one], records[other] = records[other], records[one]


def drop(records: list[Any], rng: Rng) -> None:
    del records[int(rng.integers(STEPS))]


def duplicate(records: list[Any], rng: Rng) -> None:
    at = int(rng.integers(STEPS))
    records.insert(int(rng.integers(STEPS)), records[at])


def forge_field(begin: int, size: int) -> Callable[[bytes, Rng], bytes]:
    """A field of a record changed, with the chain mended."""

    def forge(file: bytes, rng: Rng) -> bytes:
        log = Log(file)
        at = int(rng.integers(STEPS))
        record = log.records[at]
        forged = rng.bytes(size)
        log.records[at] = record[:begin] + forged + record[begin + size :]
        return file if log.records[at] == record else log.chained()

    return forge


def forge_header(name: str) -> Callable[[bytes, Rng], bytes]:
    """Another order in the header, with the chain mended."""

    def forge(file: bytes, rng: Rng) -> bytes:
        log = Log(file)
        told = json.loads(log.header)
        if name == "seed":
            told["order"]["seed"] = int(rng.integers(8, 1 << 40))
        else:
            told["order"][name] = rng.bytes(16).hex()
        text = json.dumps(told).encode()
        log.header = text + b" " * (-(len(text) + 1) % 64) + b"\n"
        return log.chained()

    return forge


def forge_ids_of_another_seed(file: bytes, rng: Rng) -> bytes:
    """The ids that another seed gives, from a step on, with the chain mended."""
    log, source = Log(file), make_source(int(rng.integers(8, 1 << 40)))
    at = int(rng.integers(STEPS))
    for step, plan in zip(range(STEPS), source.plan(15), strict=False):
        if step >= at:
            ids = blake(
                16,
                struct.pack("<Q", plan.num_sequences),
                plan.sequences.tobytes(),
                plan.sizes.tobytes(),
            )
            record = log.records[step]
            log.records[step] = record[:24] + ids + record[40:]
    return log.chained()


WAYS = [
    flip_a_byte,
    flip_a_byte,
    truncate,
    lengthen,
    *of_records(swap),
    *of_records(drop),
    *of_records(duplicate),
    forge_field(8, 8),  # begin
    forge_field(24, 16),  # ids
    forge_field(40, 8),  # content
    forge_header("seed"),
    forge_header("sizes"),
    forge_header("ids"),
    forge_ids_of_another_seed,
]


def is_found(
    folder: Path, source: sh.MinibatchSource, file: bytes, head: str, *, content: bool
) -> bool:
    (folder / "0.receipts").write_bytes(file)
    try:
        return not sh.train.Receipts(folder).audit(source, content=content, head=head).ok
    except (sh.DataError, FileNotFoundError):  # no header any more
        return True


def test_a_thousand_tampered_logs_are_found(file: bytes, tmp_path: Path) -> None:
    source = make_source()
    head = file[-64:-48].hex()
    assert not is_found(tmp_path, source, file, head, content=True)
    missed = []
    for number in range(draws(TAMPERED)):
        rng = np.random.default_rng(number)
        way = WAYS[number % len(WAYS)]
        tampered = way(file, rng)
        content = "forge_field" in way.__qualname__
        if tampered != file and not is_found(tmp_path, source, tampered, head, content=content):
            missed.append((number, way.__qualname__))
    assert not missed


def test_a_shorter_run_is_a_run_and_has_another_head(file: bytes, tmp_path: Path) -> None:
    receipts, source = sh.train.Receipts(tmp_path), make_source()
    (tmp_path / "0.receipts").write_bytes(file)
    head = receipts.head
    assert receipts.audit(source, head=head).ok
    (tmp_path / "0.receipts").write_bytes(file[: -5 * 64])
    assert receipts.audit(source).num_steps == STEPS - 5
    found = receipts.audit(source, head=head).mismatch
    assert found is not None
    assert (found.part, found.expected) == ("head", head)


@pytest.mark.parametrize(
    ("way", "part"),
    [
        (forge_field(8, 8), "begin"),
        (forge_field(24, 16), "ids"),
        (forge_field(40, 8), "content"),
        (forge_ids_of_another_seed, "ids"),
        (forge_header("seed"), "header"),
    ],
)
def test_the_first_bad_step_and_its_part_are_told(
    way: Callable[[bytes, Rng], bytes], part: str, file: bytes, tmp_path: Path
) -> None:
    forged = way(file, np.random.default_rng(1))
    (tmp_path / "0.receipts").write_bytes(forged)
    found = sh.train.Receipts(tmp_path).audit(make_source(), content=True).mismatch
    assert found is not None
    assert found.part == part
    if part == "header":
        assert found.step is None
        assert "seed is 7 here" in found.found
        return
    pairs = zip(Log(file).records, Log(forged).records, strict=True)
    first = next(step for step, (one, other) in enumerate(pairs, 1) if one != other)
    assert found.step == first
    if part == "ids":
        *_, (plan, _) = zip(make_source().plan(15), range(first), strict=False)
        assert all(name in found.expected for name in plan.ids[:3])
