"""The permutation of the core, against the model."""

from hypothesis import given
from hypothesis import strategies as st
from tests import model
from tests.strategies import seeds

from sweephand import _core

small = st.one_of(
    st.integers(1, 2000),
    st.builds(lambda k, d: 2**k + d, st.integers(1, 12), st.sampled_from([-1, 0, 1])),
)
large = st.one_of(
    st.integers(2**20 + 1, 2**62),
    st.builds(lambda k, d: 2**k + d, st.integers(21, 61), st.sampled_from([-1, 0, 1])),
    # Around a square the side of the network changes.
    st.builds(
        lambda a, d: a * a + d, st.integers(1025, 2**31 - 1), st.sampled_from([-1, 0, 1])
    ),
)


@given(small, seeds())
def test_a_small_permutation_is_that_of_the_model(size: int, key: int) -> None:
    order = _core.order.Permutation(size, key).take(0, size)
    assert order.tolist() == model.Permutation(size, key).take(0, size).tolist()


@given(large, seeds(), st.data())
def test_a_large_permutation_is_that_of_the_model(
    size: int, key: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, 40))
    first = data.draw(st.integers(0, size - count))
    order = _core.order.Permutation(size, key).take(first, count)
    assert order.tolist() == model.Permutation(size, key).take(first, count).tolist()


@given(small, seeds(), st.data())
def test_a_part_equals_the_slice_of_the_whole(size: int, key: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, size))
    count = data.draw(st.integers(0, size - first))
    permutation = _core.order.Permutation(size, key)
    whole = permutation.take(0, size)
    assert permutation.take(first, count).tolist() == whole[first : first + count].tolist()


@given(st.one_of(small, large), seeds(), st.data())
def test_an_item_is_found_at_its_place(size: int, key: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, size - 1))
    count = min(size - first, 40)
    permutation = _core.order.Permutation(size, key)
    items = permutation.take(first, count).tolist()
    assert [permutation.item(first + i) for i in range(count)] == items
    assert [permutation.place(item) for item in items] == list(range(first, first + count))
