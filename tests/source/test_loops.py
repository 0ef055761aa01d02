"""Loops over a source: sweep by sweep, or to the end of data."""

import pickle
from typing import Any

import numpy as np
import pytest

import sweephand as sh

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]
SWEEP = sum(LENGTHS)
LAYOUTS = [
    sh.Ragged(),
    sh.Padded(),
    sh.Frames(),
    sh.Packed(12),
    sh.Bucketed([4, 9]),
    sh.TruncatedBPTT(4),
]


def make_source(**options: Any) -> sh.MinibatchSource:
    offsets = np.cumsum([0, *LENGTHS])
    return sh.MinibatchSource(
        sh.ArrayDeserializer({"x": (np.arange(SWEEP), offsets)}), **options
    )


def values(minibatch: sh.Minibatch) -> list[int]:
    found: list[int] = minibatch["x"].values.tolist()
    return found


@pytest.mark.parametrize("size", [1, 16, SWEEP, 10 * SWEEP, sh.FULL_DATA_SWEEP])
@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_each_epoch_is_the_next_sweep_and_as_long_as_it_says(
    layout: sh.Layout, size: int
) -> None:
    if isinstance(layout, sh.TruncatedBPTT) and size == sh.FULL_DATA_SWEEP:
        pytest.skip("a sweep has no number of rows")
    source = make_source(layout=layout)
    orders = []
    for number in range(1, 4):
        epoch = source.sweep(size)
        promised = len(epoch)
        minibatches = [values(minibatch) for minibatch in epoch]
        assert len(minibatches) == promised
        orders.append([value for one in minibatches for value in one])
        assert sorted(orders[-1]) == list(range(SWEEP))
        assert source.current_position == number * SWEEP
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_an_epoch_goes_on_behind_a_break_and_knows_what_is_left(layout: sh.Layout) -> None:
    source, again = make_source(layout=layout), make_source(layout=layout)
    whole = [values(minibatch) for minibatch in again.epoch(16)]
    epoch = source.epoch(16)
    seen = []
    for minibatch in epoch:
        seen.append(values(minibatch))
        assert len(epoch) == len(whole)  # of the loop under way
        if len(seen) == 2:
            break
    assert len(epoch) == len(whole) - 2
    seen += [values(minibatch) for minibatch in epoch]
    assert seen == whole


@pytest.mark.parametrize(("options", "sizes"), [
    ({"max_sweeps": 2}, [SWEEP, SWEEP]),
    ({"max_samples": sh.FULL_DATA_SWEEP}, [SWEEP]),
])  # fmt: skip
def test_limits_end_epochs_and_one_behind_them_is_an_error(
    options: dict[str, Any], sizes: list[int]
) -> None:
    source = make_source(**options)
    for size in sizes:
        assert sum(minibatch.num_samples for minibatch in source.epoch(16)) == size
    assert len(source.epoch(16)) == 0
    with pytest.raises(RuntimeError, match="the source has ended, at nominal time"):
        list(source.epoch(16))


@pytest.mark.parametrize("limit", [1, SWEEP - 1, SWEEP + 20])
def test_a_limit_within_a_sweep_ends_its_epoch(limit: int) -> None:
    source = make_source(max_samples=limit)
    taken = 0
    while source.current_position < limit:
        promised = len(source.epoch(16))
        assert promised == sum(1 for _ in source.epoch(16))
        taken += promised
    again = list(make_source(max_samples=limit).minibatches(50))
    assert source.current_position == sum(minibatch.num_samples for minibatch in again)


def test_the_length_of_equal_sequences_is_known_for_any_number_of_them() -> None:
    source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.zeros((10**6, 1), "u1")}))
    assert len(source.epoch(3)) == 333_334
    pairs = sh.ArrayDeserializer({"x": (np.arange(10), [0, 2, 4, 6, 8, 10])})
    for size, wanted in ((1, 5), (2, 5), (3, 5), (4, 3), (10, 1)):
        epoch = sh.MinibatchSource(pairs).epoch(size)
        assert len(epoch) == wanted == sum(1 for _ in epoch)


class Untold(sh.UserDeserializer):
    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self) -> int:
        return 2

    def chunk_infos(self) -> object:
        return [(2, 5), (2, 3)]

    def get_chunk(self, chunk_id: int) -> dict[str, Any]:
        return {"x": [np.arange(2), np.arange(1 if chunk_id else 3)]}


def test_where_lengths_are_known_from_chunks_alone_there_is_no_len() -> None:
    epoch = sh.MinibatchSource(Untold()).epoch(4)
    with pytest.raises(TypeError, match="known only when their chunks are loaded"):
        len(epoch)
    assert sum(minibatch.num_samples for minibatch in epoch) == 8


@pytest.mark.parametrize(
    "schedule",
    [
        "8*2 + 32",
        [8, 8, 32],
        [(2, 8), (1, 32)],
        sh.minibatch_size_schedule([(2, 8), 32], epoch_size=SWEEP),
    ],
    ids=repr,
)
def test_sizes_are_given_in_any_notation_of_a_schedule(schedule: Any) -> None:
    source = make_source(max_sweeps=4)
    for minibatch in source.minibatches(schedule):
        limit = 8 if minibatch.nominal_time < 2 * SWEEP else 32
        assert minibatch.num_samples <= limit or minibatch.num_sequences == 1
    sizes = [len(make_source().epoch(size)) for size in (8, 32)]
    source = make_source(randomize=False)
    counts = []
    for _ in range(3):
        epoch = source.epoch(schedule)
        counts.append(len(epoch))
        assert counts[-1] == sum(1 for _ in epoch)
    assert counts[0] == counts[1] > counts[2]
    assert sizes[0] > sizes[1]


def test_a_second_loop_over_what_has_ended_is_hinted_at() -> None:
    source = make_source(max_sweeps=1)
    list(source.minibatches(16))
    with pytest.warns(sh.SweephandHint, match=r"is empty.*source\.sweep\(size\)"):
        assert list(source.minibatches(16)) == []
    source.current_position = 0
    assert list(source.minibatches(16))


def test_a_source_is_true_and_says_what_it_is() -> None:
    source = make_source(layout=sh.Padded())
    assert source
    source.next_minibatch(16)
    said = repr(source)
    assert said.startswith(
        "MinibatchSource(20 sequences, 97 samples a sweep; x: int64; Padded("
    )
    assert f"at nominal time {source.current_position})" in said
    assert said == repr(pickle.loads(pickle.dumps(source)))
    corpus = source.timeline.options.opened_from[0]
    assert repr(corpus) == "ArrayDeserializer(array, 20 sequences; x: int64)"
    assert repr(source.epoch(16)) == "SweepLoop(size=16, of 97 samples)"
