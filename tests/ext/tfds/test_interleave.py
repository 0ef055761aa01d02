from hypothesis import given
from hypothesis import strategies as st

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
