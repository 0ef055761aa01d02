"""Events are those of docs/order.md: in every layout, whenever they were added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.model_events import ModelEvents, Unit

import sweephand as sh

CUT = [sh.Ragged(), sh.Padded(), sh.Packed(16), sh.Packed(8, split_long="split")]
WHOLE = [sh.Bucketed([4, 9]), sh.TruncatedBPTT(4)]
SWEEPS = 3


def corpus(rng: np.random.Generator) -> sh.ArrayDeserializer:
    lengths = rng.integers(1, 9, int(rng.integers(20, 60)))
    return sh.ArrayDeserializer(
        {"x": [np.full(length, number) for number, length in enumerate(lengths)]}
    )


def source_of(data: sh.Deserializer, layout: sh.Layout, **options: Any) -> sh.MinibatchSource:
    given = {"max_sweeps": SWEEPS, "num_lanes": 4, "randomization_seed": 3, **options}
    return sh.MinibatchSource(data, layout=layout, **given)


def units_of(data: sh.Deserializer, layout: sh.Layout, size: int) -> list[Unit]:
    """Sequences, rows or minibatches of a source without events."""
    smallest = layout in WHOLE
    with source_of(data, layout) as source:
        return [
            Unit(
                minibatch.nominal_time,
                tuple(minibatch.ids),
                tuple(map(len, minibatch["x"].as_sequences())),
            )
            for minibatch in source.minibatches(size if smallest else 1)
        ]


def random_events(
    rng: np.random.Generator, names: list[str], end: int
) -> tuple[ModelEvents, list[sh.events.Event]]:
    bans = [
        (int(rng.integers(end)), rng.choice(names, int(rng.integers(1, 9))).tolist())
        for _ in range(rng.integers(0, 4))
    ]
    skips = [
        (int(begin), int(begin + rng.integers(1, end // 3)))
        for begin in rng.integers(0, end, rng.integers(0, 3))
    ]
    given: list[sh.events.Event] = [sh.events.Ban(at=at, ids=tuple(ids)) for at, ids in bans]
    given += [sh.events.Skip(at=begin, stop=stop) for begin, stop in skips]
    return ModelEvents(bans, skips), [given[i] for i in rng.permutation(len(given))]


def setting(seed: int, layout: sh.Layout, size: int = 20) -> Any:
    rng = np.random.default_rng(seed)
    data = corpus(rng)
    units = units_of(data, layout, size)
    names = sorted({name for unit in units for name in unit.ids})
    model, given = random_events(rng, names, units[-1].time + 1)
    return rng, data, units, model, given


def check_content(minibatch: sh.Minibatch) -> None:
    """The data are those of the ids, in the places that the layout says."""
    numbers = [int(name.rpartition("__")[2]) for name in minibatch.ids]
    for number, values in zip(numbers, minibatch["x"].as_sequences(), strict=True):
        assert (values == number).all()
    assert minibatch.num_sequences == len(numbers)
    assert minibatch.num_samples == sum(map(len, minibatch["x"].as_sequences()))


def random_minibatches(
    source: sh.MinibatchSource, rng: np.random.Generator, most_workers: int = 1
) -> Iterator[list[sh.Minibatch]]:
    """The shares of all workers, of minibatches of random sizes; workers come and go."""
    while True:
        size, position = int(rng.integers(1, 60)), source.get_checkpoint_state()
        workers = int(rng.integers(1, most_workers + 1))
        shares = []
        for rank in range(workers):
            source.restore_from_checkpoint(position)
            shares.append(source.next_minibatch(size, None, None, workers, rank))
        if not shares[0]:
            return
        yield shares


@pytest.mark.parametrize("layout", CUT, ids=repr)
@pytest.mark.parametrize("seed", range(12))
def test_events_are_those_of_the_page_for_any_size(layout: sh.Layout, seed: int) -> None:
    rng, data, units, model, given = setting(seed, layout)
    cuts = model.cuts()
    found, planned = [], []
    with source_of(data, layout, events=given) as source:
        for (minibatch,) in random_minibatches(source, rng):
            check_content(minibatch)
            begin, end = minibatch.nominal_time, minibatch.nominal_time
            end += minibatch.global_num_samples
            inside = [unit for unit in units if begin <= unit.time < end]
            assert not any(begin < cut <= inside[-1].time for cut in cuts)
            found += minibatch.ids
            planned += sorted([*minibatch.ids, *minibatch.banned_ids])
            assert planned[-len(minibatch.ids) - len(minibatch.banned_ids) :] == sorted(
                name for unit in inside for name in unit.ids
            )
    assert found == [name for _, name in model.delivered(units)]


@pytest.mark.parametrize("layout", [*CUT, *WHOLE], ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_nothing_before_an_event_changes_and_all_behind_is_as_if_it_was_known(
    layout: sh.Layout, seed: int
) -> None:
    rng, data, units, _, given = setting(seed, layout)
    end, size = units[-1].time, 20
    early = [event for event in given if event.at <= end // 2]
    late = [event for event in given if event not in early]
    with (
        source_of(data, layout, events=given) as known,
        source_of(data, layout, events=early) as told,
    ):
        for minibatch in known.minibatches(size):
            if late and rng.random() < 0.3 and told.current_position <= late[0].at:
                event = late.pop(0)
                told.events.append(event)
            state = told.get_checkpoint_state()
            other = told.next_minibatch(size)
            if late and other.nominal_time + other.global_num_samples > min(
                event.at for event in late
            ):
                told.restore_from_checkpoint(state)
                for event in late:
                    told.events.append(event)
                late = []
                other = told.next_minibatch(size)
            assert (other.nominal_time, other.ids) == (minibatch.nominal_time, minibatch.ids)
            assert (other.banned_ids, other.sweeps_ended) == (
                minibatch.banned_ids,
                minibatch.sweeps_ended,
            )


def test_a_state_goes_on_where_later_events_were_added_and_no_others() -> None:
    data = sh.ArrayDeserializer({"x": np.arange(100)})
    first = sh.events.Ban(at=20, ids=("array__1",))
    with source_of(data, sh.Ragged(), events=[first]) as source:
        for _ in range(3):
            source.next_minibatch(20)
        state = source.get_checkpoint_state()
    late, sooner = sh.events.Skip(at=70, stop=80), sh.events.Skip(at=60, stop=61)
    early = sh.events.Skip(at=59, stop=60)
    for events in ([first], [first, late], [first, late, sooner], [late, first]):
        with source_of(data, sh.Ragged(), events=events) as source:
            source.restore_from_checkpoint(state)
            assert source.next_minibatch(1).nominal_time in (60, 61)
    for events, why in (
        ([], "there are 1 in the state and 0 here"),
        ([sh.events.Ban(at=20, ids=("array__2",))], "are other ones"),
        ([first, early], "'skip' at 59 was added since"),
    ):
        with (
            source_of(data, sh.Ragged(), events=events) as source,
            pytest.raises(sh.StateError, match=why),
        ):
            source.restore_from_checkpoint(state)


def test_refused_events_leave_the_source_as_it_was() -> None:
    data = sh.ArrayDeserializer({"x": np.arange(100)})
    with source_of(data, sh.Ragged()) as source:
        source.next_minibatch(30)
        for wrong, why in (
            (lambda: source.events.ban(["array__5"], at=29), "the source stands at 30"),
            (lambda: source.events.ban(["array__500"]), "'array__500'"),
            (lambda: source.events.skip(50, 50), "stop must be"),
            (lambda: source.events.weights({"a": 1}), "there is one corpus"),
        ):
            with pytest.raises(ValueError, match=why):
                wrong()
            assert list(source.events) == []
            assert source.current_position == 30
        with pytest.raises(TypeError, match="texts"):
            source.events.ban("array__5")
        assert source.next_minibatch(10).nominal_time == 30
        assert source.stats()["minibatches"] == 2


def test_a_ban_of_what_was_made_into_several_means_all_of_them() -> None:
    data = sh.ArrayDeserializer({"x": [np.arange(3), np.arange(4), np.arange(2)]})
    with sh.MinibatchSource(data, layout=sh.Frames(), max_sweeps=1) as source:
        source.events.ban(["array__1"])
        minibatch = source.next_minibatch(9)
        assert sorted(minibatch.banned_ids) == [f"array__1#{n}" for n in range(4)]
        assert minibatch.num_samples == 5


def test_what_cannot_be_written_to_the_file_has_not_happened(tmp_path: Any) -> None:
    data = sh.ArrayDeserializer({"x": np.arange(100)})
    kept = tmp_path / "run" / "events.json"
    with source_of(data, sh.Ragged(), events=kept, randomize=False) as source:
        source.events.skip(20, 40)
        kept.rename(tmp_path / "kept.json")
        kept.parent.rmdir()
        kept.parent.write_text("in the way")
        for _ in range(2):
            with pytest.raises(OSError, match="run"):
                source.events.ban(["array__5"])
        assert [event.name for event in source.events] == ["skip"]
        assert source.next_minibatch(10).ids == [f"array__{i}" for i in range(10)]
        kept.parent.unlink()
        source.events.ban(["array__12"])
        assert len(source.next_minibatch(10).ids) == 9
    assert sh.events.load(kept) == [
        sh.events.Skip(at=20, stop=40),
        sh.events.Ban(at=10, ids=("array__12",)),
    ]


def test_a_copy_in_another_process_has_the_events() -> None:
    import pickle

    data = sh.ArrayDeserializer({"x": np.arange(100)})
    with source_of(data, sh.Ragged()) as source:
        source.events.ban(["array__3", "array__4"], at=0)
        with pickle.loads(pickle.dumps(source)) as copy:
            assert list(copy.events) == list(source.events)
            minibatch, other = source.next_minibatch(100), copy.next_minibatch(100)
        assert minibatch.ids == other.ids
        again = pickle.loads(pickle.dumps(minibatch))
        assert again.banned_ids == minibatch.banned_ids == other.banned_ids
        assert len(again.banned_ids) == 2


@pytest.mark.parametrize("layout", [sh.Packed(6), sh.Packed(6, micro_batch_rows=2)], ids=repr)
@pytest.mark.parametrize("balance", [None, "samples"])
def test_rows_of_which_all_is_banned_stay_as_rows_of_padding(
    layout: sh.Layout, balance: Any
) -> None:
    data = sh.ArrayDeserializer({"x": [np.arange(1, 3)] * 3})
    names = tuple(f"array__{number}" for number in range(3))
    options: Any = {"events": [sh.events.Ban(at=0, ids=names)], "balance": balance}
    for workers in (1, 2, 3):
        shares = []
        for rank in range(workers):
            with source_of(data, layout, num_lanes=6, **options) as source:
                shares.append(source.next_minibatch(12, None, None, workers, rank))
        assert len({share["x"].asarray().shape for share in shares}) == 1
        for share in shares:
            assert share["x"].asarray().shape[0] > 0
            assert not share["x"].asarray().any()
            assert share["x"].mask.shape == share.segment_ids.shape == share["x"].dense_shape
            assert not share.segment_ids.any()
            assert share.num_samples == 0
            assert (share["x"].labels() == -100).all()
