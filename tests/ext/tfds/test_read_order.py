from hypothesis import given
from hypothesis import strategies as st

from sweephand.ext.tfds.read_order import FileShuffle, Interleave, philox


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


def test_the_generator_is_the_published_one() -> None:
    numbers = philox(0, 0, 0, 4).tolist()
    assert numbers == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_the_parent_generator_makes_the_published_pairs() -> None:
    assert philox(87654321, 7, 0, 4).tolist() == [
        0x76BDF1C7,
        0xBEC0CB43,
        0x0E20A88D,
        0x9B0FF78E,
    ]
    drawn = philox(0x76BDF1C7, 0xBEC0CB43, 0, 4).tolist()
    assert drawn == [3796837372, 101266603, 2298337980, 1118743740]


def test_numbers_from_the_middle_are_those_of_the_whole() -> None:
    whole = philox(1, 2**40 + 3, 0, 50).tolist()
    for first in range(20):
        for count in range(12):
            assert philox(1, 2**40 + 3, first, count).tolist() == whole[first : first + count]


def test_seeds_that_are_equal_modulo_the_prime_collide() -> None:
    def orders(seed: int, global_seed: int | None = None) -> list[list[int]]:
        shuffle = FileShuffle(seed, global_seed=global_seed)
        return [shuffle.order(100, number).tolist() for number in range(3)]

    assert orders(0) == orders(2**31 - 1)
    assert orders(0) != orders(1)
    assert orders(7, global_seed=1) != orders(7)
    assert orders(7, global_seed=87654321) == orders(7)
    assert orders(0, global_seed=0) == orders(2**31 - 1, global_seed=0)
