import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sanitized import unmeasured

from sweephand.ext.tfds.read_order import Interleave


def visit_by_visit(lengths: list[int], cycle: int, block: int) -> list[tuple[int, int]]:
    """Interleave as tf.data does it, one visit at a time."""
    order = []
    slots: list[int | None] = [None] * cycle
    read = [0] * len(lengths)
    waiting = list(range(len(lengths)))
    slot = 0
    while waiting or any(file is not None for file in slots):
        if slots[slot] is None and waiting:
            slots[slot] = waiting.pop(0)
        file = slots[slot]
        if file is not None:
            count = min(block, lengths[file] - read[file])
            order += [(file, read[file] + i) for i in range(count)]
            read[file] += count
            if count < block:
                slots[slot] = None
        slot = (slot + 1) % cycle
    return order


@given(
    lengths=st.lists(st.integers(1, 40), max_size=12),
    cycle=st.integers(1, 8),
    block=st.integers(1, 9),
    data=st.data(),
)
def test_the_order_is_that_of_single_visits(
    lengths: list[int], cycle: int, block: int, data: st.DataObject
) -> None:
    expected = visit_by_visit(lengths, cycle, block)
    order = Interleave(lengths, cycle_length=cycle, block_length=block)
    assert [order.find(*place) for place in expected] == list(range(len(expected)))
    for first in range(len(expected) + 1):
        count = data.draw(st.integers(0, len(expected) - first))
        files, examples = order.take(first, count)
        found = list(zip(files.tolist(), examples.tolist(), strict=True))
        assert found == expected[first : first + count]


@unmeasured
def test_a_place_in_a_hundred_million_examples_is_found_at_once() -> None:
    lengths = np.random.default_rng(0).integers(90_000, 105_000, 1024).tolist()
    begin = time.thread_time()
    order = Interleave(lengths, cycle_length=16, block_length=16)
    position = len(order) * 99 // 100
    file, example = (int(one[0]) for one in order.take(position, 1))
    worked = time.thread_time() - begin
    assert order.find(file, example) == position
    assert worked < 0.5  # some milliseconds as a rule; one visit at a time takes seconds


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, 8), (7, 1), (3, -1)])
def test_positions_outside_are_refused(first: int, count: int) -> None:
    with pytest.raises(IndexError, match=r"positions must be in \[0, 7\)"):
        Interleave([4, 3], cycle_length=2, block_length=2).take(first, count)
