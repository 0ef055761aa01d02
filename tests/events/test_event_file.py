"""The file of events: several add to it, nothing is lost, and damage is seen."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from tests.extent import sample

import sweephand as sh
from sweephand.events.event_file import EventFile, append, load, renew

E = sh.events
SPAWN = multiprocessing.get_context("spawn")


def source_of(path: Path, **options: Any) -> sh.MinibatchSource:
    data = sh.ArrayDeserializer({"x": np.arange(100)})
    return sh.MinibatchSource(data, events=path, randomize=False, **options)


def ban(at: int, number: int) -> sh.events.Ban:
    return E.Ban(at=at, ids=(f"array__{number}",))


def test_what_another_process_added_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    with source_of(path) as source:
        source.next_minibatch(10)
        source.events.skip(50, 60)
        append(ban(12, 13), path)
        append(ban(10, 11), path)
        source.events.ban(["array__15"])
        expected = [E.Skip(at=50, stop=60), ban(12, 13), ban(10, 11), ban(10, 15)]
        assert load(path) == list(source.events) == expected
        assert source.next_minibatch(10).banned_ids == ["array__11", "array__13", "array__15"]
        told = source.events.digest
    with source_of(path) as source:
        assert source.events.digest == told


def test_what_lies_in_the_past_is_refused_by_name_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    with source_of(path) as source:
        source.events.skip(50, 60)
        source.next_minibatch(30)
        append(ban(5, 7), path)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"events\.json: .*'ban' at 5 "):
                source.events.skip(70, 80)
        assert list(source.events) == [E.Skip(at=50, stop=60)]
        assert load(path) == [E.Skip(at=50, stop=60), ban(5, 7)]
        source.current_position = 0
        source.events.skip(70, 80)
        expected = [E.Skip(at=50, stop=60), ban(5, 7), E.Skip(at=70, stop=80)]
        assert load(path) == list(source.events) == expected


def test_all_workers_add_the_same_events_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    weights = [E.Weights(at=20, weights={"a": n, "b": 1}) for n in (1, 5)]
    corpora = {name: sh.ArrayDeserializer({"x": np.arange(50)}) for name in "ab"}
    sources = [
        sh.MinibatchSource(sh.Mixture(corpora, {"a": 1, "b": 1}), events=path) for _ in range(3)
    ]
    added = [ban(0, 1), *weights, weights[0]]
    added[0] = E.Ban(at=0, ids=("a/array__1",))
    # One after the other, each as far ahead of the others as it likes.
    for source in sources:
        for event in added:
            source.events.append(event)
    late = E.Skip(at=30, stop=40)
    for source in sources:
        source.events.append(late)
        assert list(source.events) == [*added, late]
        source.close()
    assert load(path) == [*added, late]
    assert len({source.events.digest for source in sources}) == 1


def test_an_event_that_the_file_has_lost_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    with source_of(path) as source:
        source.events.skip(50, 60)
        E.save([ban(70, 3)], path)
        with pytest.raises(ValueError, match="no longer has 'skip' at 50"):
            source.events.skip(80, 90)
        assert load(path) == [ban(70, 3)]
        path.unlink()
        source.events.skip(80, 90)
        assert load(path) == [E.Skip(at=50, stop=60), E.Skip(at=80, stop=90)]


def add_many(path: Path, first: int, ready: Any) -> None:
    with source_of(path) as source:
        ready.wait()
        for number in range(first, first + 12):
            source.events.ban([f"array__{number}"], at=number)


def test_processes_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    ready = SPAWN.Barrier(4)
    processes = [
        SPAWN.Process(target=add_many, args=(path, first, ready)) for first in (0, 20, 40)
    ]
    for process in processes:
        process.start()
    ready.wait()
    for number in range(60, 72):
        append(ban(number, number), path)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    there = load(path)
    expected = {*range(12), *range(20, 32), *range(40, 52), *range(60, 72)}
    assert sorted(event.at for event in there) == sorted(expected)
    for first in (0, 20, 40, 60):  # each in its order
        own = [event.at for event in there if first <= event.at < first + 12]
        assert own == sorted(own)
    assert [one.name for one in tmp_path.iterdir()] == ["events.json"]


def test_a_file_that_cannot_be_locked_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.json"
    append(ban(1, 1), path)
    whole, refused = path.read_bytes(), OSError(errno.ENOLCK, "No locks available")
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=refused))
    with pytest.raises(OSError, match=r"cannot be locked.*events\.json"):
        append(ban(2, 2), path)
    assert path.read_bytes() == whole


def die_inside(path: Path) -> None:
    with EventFile.changing(path) as file:
        (path.parent / f".{path.name}.part").write_text("{half")
        assert file.read()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_while_it_adds_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    append(ban(1, 1), path)
    process = SPAWN.Process(target=die_inside, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    append(ban(2, 2), path)
    assert load(path) == [ban(1, 1), ban(2, 2)]


def example(path: Path) -> bytes:
    E.save(
        [ban(17, 4), E.Weights(at=20, weights={"a": 0.5, "b": 3}), E.Skip(at=5, stop=9)], path
    )
    return path.read_bytes()


def read_or_refuse(path: Path) -> list[sh.events.Event] | ValueError:
    try:
        return load(path)
    except ValueError as error:
        return error


def test_a_flipped_bit_is_refused_or_means_the_same(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    whole = example(path)
    events = load(path)
    refused = 0
    places = sample(range(len(whole)), 64)
    for place in places:
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            found = read_or_refuse(path)
            assert found == events or str(found).startswith(f"{path}: ")
            refused += isinstance(found, ValueError)
    assert refused > 7 * len(places)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    whole = example(path)
    for end in sample(range(len(whole) - 2), 64):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"events\.json: "):
            load(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"version": 1, "events": {}}', "a list of 'events'"),
        ('{"version": 1, "events": [], "events": []}', "the key 'events' comes twice"),
        ('{"version": 1, "events": [{"event": "skip", "at": 1, "at": 2, "stop": 9}]}', "'at'"),
        ('{"version": 1, "more": 1, "events": []}', "nothing else"),
        ('{"version": 1, "events": [NaN]}', "NaN is no number"),
        ('{"version": 1, "events": [1e999]}', "JSON compliant|Out of range"),
        ("[" * 100_000, "nested too deeply"),
        ('{"version": 1, "events": ' + '{"a":' * 100_000, "nested too deeply"),
        ('{"version": 1, "events": ' + "[" * 900 + "]" * 900 + "}", "."),
        ('{"version": 1, "events": []}', "renew"),
        ('{"version": 2, "events": []}', "of version 1"),
        ("[]", "of version 1"),
        ("", "Expecting value"),
    ],
    ids=lambda value: value[:40],
)
def test_what_is_no_list_of_events_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "events.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=why) as caught:
        E.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    with pytest.raises(ValueError, match=r"events\.json"):
        source_of(path)
    with pytest.raises(ValueError, match=why):
        append(ban(1, 1), path)
    assert path.read_text() == text


def test_a_file_that_was_edited_gets_a_new_checksum(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    example(path)
    events = load(path)
    path.write_text(path.read_text().replace('"stop": 9', '"stop": 11'))
    with pytest.raises(ValueError, match="'sweephand events FILE renew'"):
        load(path)
    assert renew(path) == load(path) == [*events[:2], E.Skip(at=5, stop=11)]
    # Spaces and the order of keys mean nothing.
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert len(load(path)) == 3
