"""Loops over a source: every sweep once, whatever was read ahead and wherever a loop ends."""

import json
import os
import pickle
import signal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import sweephand as sh
import sweephand.torch

pytestmark = [
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),  # torchdata's
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]
SWEEP = sum(LENGTHS)
# (num_workers, how they start); a spawned process imports torch again, which takes seconds
SPAWNED = pytest.param((1, "spawn"), marks=pytest.mark.exhaustive)
PROCESSES: list[Any] = [(0, None), (1, "fork"), (2, "fork"), SPAWNED]
LAYOUTS = [sh.Ragged(), sh.Packed(12), sh.Bucketed([4, 9]), sh.TruncatedBPTT(4)]


def make_source(**options: Any) -> sh.MinibatchSource:
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    return sh.MinibatchSource(
        sh.ArrayDeserializer({"x": (np.arange(SWEEP), offsets)}), **options
    )


def make_loader(
    source: sh.MinibatchSource,
    processes: tuple[int, str | None] = (0, None),
    read_ahead: int = 0,
    **options: Any,
) -> sh.torch.DataLoader:
    num_workers, start = processes
    return sh.torch.DataLoader(
        sh.torch.IterableDataset(source, 16, to_item=values_of, **options),
        read_ahead=read_ahead,
        num_workers=num_workers,
        multiprocessing_context=start,
    )


def values_of(minibatch: sh.Minibatch) -> list[int]:
    values: list[int] = minibatch["x"].values.tolist()
    return values


def sweeps_of(source: sh.MinibatchSource) -> list[list[int]]:
    """Return three sweeps, as an unbroken loop without processes gives them."""
    loader = make_loader(source)
    return [item for _ in range(3) for item in loader]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("processes", PROCESSES)
def test_each_loop_is_the_next_sweep(
    processes: tuple[int, str | None], layout: sh.Layout
) -> None:
    loader = make_loader(make_source(layout=layout), processes)
    orders = []
    for _ in range(3):
        seen = [value for item in loader for value in item]
        assert sorted(seen) == list(range(SWEEP))
        orders.append(seen)
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize("stop", [1, 3, 7])
@pytest.mark.parametrize("processes", PROCESSES)
def test_a_loop_goes_on_behind_what_a_break_left(
    processes: tuple[int, str | None], stop: int
) -> None:
    source = make_source()
    loader = make_loader(source, processes)
    seen = list(islice(loader, stop))
    seen += list(islice(loader, 1))
    assert source.current_position == sum(map(len, seen))
    while source.current_position < 3 * SWEEP:
        seen += loader
    assert seen == sweeps_of(make_source())


@pytest.mark.parametrize("processes", PROCESSES)
def test_a_state_beside_processes_is_of_what_was_handed_out(
    processes: tuple[int, str | None],
) -> None:
    source = make_source()
    loader = make_loader(source, processes)
    seen = []
    for item in loader:
        seen.append(item)
        of_source, of_loader = source.state_dict(), json.dumps(loader.state_dict())
        assert of_source == json.loads(of_loader)
        if len(seen) == 4:
            break
    again = make_source()
    resumed = make_loader(again, processes)
    resumed.load_state_dict(json.loads(of_loader))
    for _ in range(3):
        seen += resumed
    assert seen == sweeps_of(make_source())
    assert again.current_position == 3 * SWEEP


@pytest.mark.parametrize("processes", PROCESSES)
def test_what_was_read_ahead_is_in_no_state_and_comes_again(
    processes: tuple[int, str | None],
) -> None:
    loader = make_loader(make_source(), processes, read_ahead=1)
    assert loader.state_dict()["position"] == 0
    items = iter(loader)
    first, second = next(items), next(items)
    assert loader.state_dict()["position"] == len(first)
    third = next(items)
    assert loader.state_dict()["position"] == len(first + second)
    items.close()
    again = list(loader)
    assert again[0] == third
    assert loader.state_dict()["position"] == SWEEP  # who saw the end has trained everything
    assert [first, second, *again] == list(islice(sweeps_of(make_source()), 2 + len(again)))


@pytest.mark.parametrize("processes", PROCESSES)
def test_an_iteration_of_so_many_samples_ends_with_the_minibatch_that_reaches_them(
    processes: tuple[int, str | None],
) -> None:
    source = make_source()
    loader = make_loader(source, processes, samples_per_iteration=40)
    seen = []
    for end in (40, 80, 120):
        seen += loader
        last = len(seen[-1])
        assert end <= source.current_position < end + last
    plain = [values_of(minibatch) for minibatch in islice(make_source().minibatches(16), 99)]
    assert seen == plain[: len(seen)]


@pytest.mark.parametrize("processes", PROCESSES[:3])
def test_a_loop_over_a_source_that_has_ended_says_so(
    processes: tuple[int, str | None],
) -> None:
    source = make_source(max_sweeps=1)
    loader = make_loader(source, processes)
    sweep = list(loader)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the source has ended, at nominal time 97"):
            next(iter(loader))
    source.current_position = 0
    assert list(loader) == sweep
    assert list(make_loader(source, processes, samples_per_iteration=None)) == []


def test_who_moves_the_source_meanwhile_is_told() -> None:
    source = make_source()
    loader = make_loader(source, (1, "fork"))
    items = iter(loader)
    seen = [next(items), values_of(source.next_minibatch(16))]
    with pytest.raises(RuntimeError, match="moved, iterated over otherwise"):
        next(items)
    assert [*seen, *loader] == list(make_loader(make_source()))


def test_an_event_ends_an_iteration_of_processes_and_holds_in_the_next() -> None:
    source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(40)}), max_sweeps=2)
    loader = make_loader(source, (1, "fork"))
    items = iter(loader)
    seen = list(next(items))
    banned = next(n for n in range(40) if n not in seen)
    source.events.ban([f"array__{banned}"])
    with pytest.raises(RuntimeError, match="given events"):
        next(items)
    rest = [value for item in loader for value in item]
    assert sorted([*seen, *rest, banned]) == list(range(40))


@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
def test_processes_that_nobody_counts_are_refused(kind: type[DataLoader[Any]]) -> None:
    dataset = sh.torch.IterableDataset(make_source(), 16, to_item=values_of)
    with pytest.raises(RuntimeError, match=r"take sh\.torch\.DataLoader"):
        list(kind(dataset, batch_size=None, num_workers=1))


@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_loaders_that_would_stack_minibatches_are_refused(
    kind: type[DataLoader[Any]], batch_size: int
) -> None:
    dataset = sh.torch.IterableDataset(make_source(), 16)
    with pytest.raises(TypeError, match=r"batch_size=None.*get_train_dataloader"):
        next(iter(kind(dataset, batch_size=batch_size)))


@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
def test_any_loader_without_processes_goes_on(kind: type[DataLoader[Any]]) -> None:
    source = make_source()
    dataset = sh.torch.IterableDataset(source, 16, to_item=values_of)
    loader = kind(dataset, batch_size=None)
    seen = list(islice(loader, 3))
    assert source.state_dict()["position"] == sum(map(len, seen))
    for _ in range(3):
        seen += loader
    assert seen == sweeps_of(make_source())


def test_a_stateful_loader_resumes_the_rest_of_a_sweep() -> None:
    def loader() -> StatefulDataLoader:
        dataset = sh.torch.IterableDataset(make_source(), 16, to_item=values_of)
        return StatefulDataLoader(dataset, batch_size=None)

    sweep = list(make_loader(make_source()))
    for stop in range(len(sweep) + 1):
        first = loader()
        seen = list(islice(iter(first), stop))
        second = loader()
        second.load_state_dict(first.state_dict())
        assert seen + list(second) == sweep


def test_a_process_that_dies_or_fails_is_an_error_of_the_loader() -> None:
    for to_item, error in (
        (killed_at_the_third, "exited unexpectedly"),
        (fails_at_the_third, "Caught ValueError in DataLoader worker process 0"),
    ):
        source = make_source()
        dataset = sh.torch.IterableDataset(source, 16, to_item=to_item)
        items = iter(sh.torch.DataLoader(dataset, num_workers=2, prefetch_factor=1))
        seen: list[list[int]] = []
        with pytest.raises((RuntimeError, ValueError), match=error):
            seen += items
        assert seen == sweeps_of(make_source())[: len(seen)]
        assert source.current_position == sum(map(len, seen))


def killed_at_the_third(minibatch: sh.Minibatch) -> list[int]:
    if minibatch.nominal_time > 32:
        os.kill(os.getpid(), signal.SIGKILL)
    return values_of(minibatch)


def fails_at_the_third(minibatch: sh.Minibatch) -> list[int]:
    if minibatch.nominal_time > 32:
        raise ValueError("no such item")
    return values_of(minibatch)


def test_a_source_travels_by_pickle_with_its_place(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(20))
    mapped = sh.MinibatchSource(sh.NpyDeserializer({"x": tmp_path / "x.npy"}), max_sweeps=1)
    for here in (mapped, make_source(max_sweeps=1)):
        here.next_minibatch(7)
        there = pickle.loads(pickle.dumps(here))
        rest = [values_of(minibatch) for minibatch in here.minibatches(5)]
        assert [values_of(minibatch) for minibatch in there.minibatches(5)] == rest


def test_the_length_is_known_where_sequences_have_one_sample() -> None:
    def length(source: sh.MinibatchSource, size: int, **options: Any) -> int:
        return len(sh.torch.DataLoader(sh.torch.IterableDataset(source, size, **options)))

    rows = sh.ArrayDeserializer({"x": np.arange(25)})
    source = sh.MinibatchSource(rows)
    assert length(source, 4) == 7
    assert length(source, 25) == length(source, sh.FULL_DATA_SWEEP) == 1
    assert length(source, 4, samples_per_iteration=40) == 10
    source.current_position = 8
    assert length(source, 4) == 7, "of the whole iteration, in its middle too"
    finite = sh.MinibatchSource(rows, max_sweeps=3)
    assert length(finite, 4, samples_per_iteration=None) == 19
    for unknown, samples in ((source, 42), (source, None), (make_source(), "sweep")):
        with pytest.raises(TypeError, match="how many minibatches"):
            length(unknown, 4, samples_per_iteration=samples)


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (TypeError, {"batch_size": 3}),
        (TypeError, {"collate_fn": list}),
        (ValueError, {"shuffle": True}),
        (ValueError, {"drop_last": True}),
        (ValueError, {"num_workers": 2, "in_order": False}),
        (ValueError, {"num_workers": 2, "persistent_workers": True}),
    ],
)
def test_options_that_make_or_reorder_minibatches_are_refused(
    error: type[Exception], options: dict[str, Any]
) -> None:
    with pytest.raises(error):
        sh.torch.DataLoader(sh.torch.IterableDataset(make_source(), 16), **options)


def test_a_dataset_of_others_and_an_iteration_of_nothing_are_refused() -> None:
    with pytest.raises(TypeError, match=r"must be a sh\.torch\.IterableDataset"):
        sh.torch.DataLoader([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="samples_per_iteration"):
        sh.torch.IterableDataset(make_source(), 16, samples_per_iteration=0)
    with pytest.raises(ValueError, match="or neither"):
        sh.torch.IterableDataset(make_source(), 16, num_data_partitions=2)


def as_it_is(minibatch: sh.Minibatch) -> sh.Minibatch:
    return minibatch


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_minibatch_goes_through_a_loader_with_its_ids(num_workers: int) -> None:
    dataset = sh.torch.IterableDataset(make_source(), 16, to_item=as_it_is)
    loader = sh.torch.DataLoader(dataset, num_workers=num_workers)
    one_by_one = sh.torch.IterableDataset(make_source(), 16, to_item=as_it_is)
    for found, wanted in zip(loader, one_by_one, strict=True):
        assert isinstance(found, sh.Minibatch)
        assert found.ids == wanted.ids
        assert found.nominal_time == wanted.nominal_time
        assert torch.equal(found["x"].torch(), wanted["x"].torch())
