"""Every kind of file that is appended to or replaced, written and read item by item."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sweephand as sh
from sweephand.errors import DataError
from sweephand.ext.follow.loss_ledger import read_ledger
from sweephand.ext.follow.receipts import (
    Header,
    Receipt,
    Start,
    WrittenReceipts,
    links_in,
    read_receipts,
)
from sweephand.files.index_file import Index, read_index, write_index

Write = Callable[[Path, Sequence[int]], Iterator[int]]


@dataclass(frozen=True)
class Kind:
    """A kind of files whose items are numbers."""

    name: str  # of the file
    write: Write  # adds items, or replaces the file by each; yields each when acknowledged
    read: Callable[[Path], list[int]]
    is_whole: bool = False  # holds one item at a time
    refuses: bool = False  # damage before the end is a DataError: items cannot be made again


MEANING = {"format": "test"}


def write_the_index(path: Path, items: Sequence[int]) -> Iterator[int]:
    for item in items:
        arrays = {"a": np.full(20, item, np.uint32), "b": np.full((3, 2), item, np.float32)}
        starts = {name: np.array([0, len(array)]) for name, array in arrays.items()}
        content = Index([("a.txt", 7, "tag")], [{"item": item}], arrays, starts)
        write_index(path, content, MEANING)
        yield item


def read_the_index(path: Path) -> list[int]:
    content = read_index(path, MEANING, {os.geteuid()})
    if content is None:
        return []
    item: int = content.facts[0]["item"]
    assert all((array == item).all() for array in content.arrays.values())
    return [item]


def write_ledger(path: Path, items: Sequence[int]) -> Iterator[int]:
    corpus = sh.ArrayDeserializer({"x": np.arange(30.0)}, ids=[f"id {i}" for i in range(30)])
    with sh.MinibatchSource(corpus) as source, sh.LossLedger(path.parent) as ledger:
        for item in items:
            source.current_position = 3 * item
            if item == items[0]:
                ledger.rewind(item)
            ledger.record(source.next_minibatch(3), [item] * 3, item + 1)
            ledger.flush()
            yield item


def read_losses(path: Path) -> list[int]:
    try:
        visits, names = read_ledger(path.parent)
    except FileNotFoundError:
        return []
    told, _ = names.of(visits["number"])
    assert all(name.startswith("id ") for name in told)
    assert (visits["loss"] == visits["step"] - 1).all()
    assert len(visits["step"]) % 3 == 0
    return (visits["step"][::3] - 1).tolist()


def receipt_of(item: int) -> Receipt:
    return Receipt(item + 1, 10 * item, 10, b"1" * 16, 2)


def write_receipts(path: Path, items: Sequence[int]) -> Iterator[int]:
    with closing(WrittenReceipts(path)) as file:
        file.rewind(items[0])
        if file.header is None:
            file.begin(Header(Start(0, 0, []), None, {}, {}))
        for item in items:
            file.add(receipt_of(item))
            file.flush()
            yield item


def read_steps(path: Path) -> list[int]:
    try:
        links = list(links_in(*read_receipts(path.parent)[1:]))
    except FileNotFoundError:
        return []
    except DataError as error:
        if "no whole header" in str(error):  # and so it is written again
            return []
        raise
    found = []
    for receipt, chain, wanted in links:
        if chain != wanted:
            break
        assert receipt.begin == 10 * (receipt.step - 1)
        found.append(receipt.step - 1)
    return found


KINDS = {
    kind.name: kind
    for kind in (
        Kind("text.sweephand-index", write_the_index, read_the_index, is_whole=True),
        Kind("0.losses", write_ledger, read_losses, refuses=True),
        Kind("0.receipts", write_receipts, read_steps, refuses=True),
    )
}
