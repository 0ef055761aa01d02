"""Law 5: a state continues exactly, anywhere, and is refused where it does not belong."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model
from tests.sources import (
    KINDS,
    as_served,
    check_share,
    engines,
    request_of,
    serving,
)
from tests.strategies import requests, timelines, workers

import sweephand as sh
from sweephand.source.state import described

State = dict[str, Any]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_state_taken_at_any_moment_continues_exactly(kind: str, data: st.DataObject) -> None:
    """A chain of resumes, each with other sizes, workers and engines, and through JSON."""
    corpus, settings = as_served(kind, *data.draw(timelines()))
    time, text = 0, ""
    for _ in range(5):
        with serving(kind, corpus, settings, **data.draw(engines())) as source:
            if text:
                source.restore_from_checkpoint(json.loads(text))
            for _ in range(data.draw(st.integers(0, 3))):
                request = data.draw(requests(corpus))
                count = data.draw(workers(settings))
                rank = data.draw(st.integers(0, count - 1))
                taken = model.minibatch(corpus, settings, time, request)
                share = model.shares(corpus, settings, taken, count)[rank]
                found = source.next_minibatch(
                    request_of(request), num_data_partitions=count, partition_index=rank
                )
                check_share(found, corpus, taken, share)
                time += sum(entry.size for entry in taken)
            state = source.get_checkpoint_state()
            text = json.dumps(state)
            assert state["position"] == time
            assert len(text) < 1024
            source.restore_from_checkpoint(state)
            assert source.get_checkpoint_state() == state


def test_a_restore_beyond_the_end_of_data_is_the_end_of_data() -> None:
    corpus = sh.ArrayDeserializer({"x": np.arange(10)})
    with sh.MinibatchSource(corpus) as endless, sh.MinibatchSource(corpus, max_sweeps=1) as one:
        endless.current_position = 25
        one.restore_from_checkpoint(endless.get_checkpoint_state())
        assert not one.next_minibatch(4)
        assert one.current_position == 10
        assert not one.next_minibatch(3)
        one.current_position = 8
        assert one.next_minibatch(4).num_samples == 2


# Other corpora and orders ---------------------------------------------------------------------

LENGTHS = [3, 1, 2, 2, 4, 1, 3, 2]
VALUES = np.arange(sum(LENGTHS), dtype=np.int32)


def source_with(
    lengths: list[int] = LENGTHS,
    dtype: str = "int32",
    stream: str = "x",
    name: str = "array",
    chunk_size: int = 2,
    **options: Any,
) -> sh.MinibatchSource:
    data = {stream: (VALUES.astype(dtype), np.cumsum([0, *lengths]))}
    corpus = sh.ArrayDeserializer(data, chunk_size=chunk_size, name=name)
    return sh.MinibatchSource(corpus, **options)


OTHERS: dict[str, dict[str, Any]] = {
    "sizes": {"lengths": [1, 3, *LENGTHS[2:]]},
    "names": {"name": "other"},
    "streams": {"dtype": "int64"},
    "seed": {"randomization_seed": 1},
    "window": {"randomization_window_in_chunks": 2, "num_lanes": 1},
    "num_lanes": {"num_lanes": 47},
    "layout": {"layout": sh.Padded()},
    "randomize": {"randomize": False},
}


def words(value: object) -> object:
    return re.sub(" #[0-9a-f]{16}$", "", value) if isinstance(value, str) else value


@pytest.mark.parametrize("field", OTHERS)
def test_a_state_of_another_order_is_refused_naming_what_differs(field: str) -> None:
    with source_with() as source, source_with(**OTHERS[field]) as other:
        other.next_minibatch(4)
        theirs, ours = other.get_checkpoint_state(), source.get_checkpoint_state()
        with pytest.raises(sh.StateError, match="another corpus or order") as caught:
            source.restore_from_checkpoint(theirs)
        for name in ours:
            if name == "position":
                continue
            here, there = words(ours[name]), words(theirs[name])
            told = f"{name} is {here!r} here and {there!r} in the state"
            if here == there:
                told = f"{name} is {here!r} in both, but what that leaves out differs"
            assert (told in str(caught.value)) == (ours[name] != theirs[name])
        assert f"{field} is " in str(caught.value)
        assert not re.search("[0-9a-f]{16}", str(caught.value))
        assert source.current_position == 0
        assert source.next_minibatch(4).nominal_time == 0


def test_chunks_count_only_where_the_order_depends_on_them() -> None:
    with source_with(chunk_size=2) as source, source_with(chunk_size=4) as other:
        source.restore_from_checkpoint(other.get_checkpoint_state())
    window = {"randomization_window_in_chunks": 2, "num_lanes": 1}
    with (
        source_with(chunk_size=2, **window) as source,
        source_with(chunk_size=4, **window) as other,
        pytest.raises(sh.StateError, match="chunks is "),
    ):
        source.restore_from_checkpoint(other.get_checkpoint_state())


def test_what_the_order_does_not_depend_on_may_change() -> None:
    options = {"num_threads": 0, "prefetch": 0, "max_sweeps": 3, "balance": "samples"}
    with source_with() as source, source_with(**options, memory_limit=10**9) as other:
        source.next_minibatch(5)
        other.restore_from_checkpoint(source.get_checkpoint_state())
        assert other.next_minibatch(5).ids == source.next_minibatch(5).ids


def test_folders_and_times_of_files_do_not_count(tmp_path: Path) -> None:
    states = []
    for folder, modified in (("a", 1), ("b", 2)):
        path = tmp_path / folder / "x.npy"
        path.parent.mkdir()
        np.save(path, np.arange(5))
        os.utime(path, (modified, modified))
        with sh.MinibatchSource(sh.NpyDeserializer({"x": path})) as source:
            states.append(source.get_checkpoint_state())
    assert states[0] == states[1]


# What is told of the values -----------------------------------------------------------------


def test_what_has_no_room_in_a_state_still_decides() -> None:
    files = [f"part-{number:05}.npy" for number in range(1000)]
    ours, theirs = described(*files), described(*files[:-1], "other.npy")
    assert words(ours) == words(theirs)
    assert ours != theirs


@given(st.lists(st.text(), max_size=40))
def test_a_description_has_room_in_a_state(parts: list[str]) -> None:
    assert len(json.dumps(described(*parts))) - 2 <= 96
    assert described(*parts) != described(*parts, "x")


def test_states_stay_small_with_all_that_makes_them_long() -> None:
    lengths = np.random.default_rng(0).integers(1, 65, 140_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    streams = {
        f"tokens_{number:02}": (np.zeros(offsets[-1], np.uint8), offsets) for number in "ab"
    }
    corpus = sh.ArrayDeserializer(streams, name="n" * 90)
    for layout in (sh.Bucketed(range(1, 65)), sh.Packed(64), sh.TruncatedBPTT(8)):
        with sh.MinibatchSource(
            corpus,
            layout=layout,
            randomization_seed=2**64 - 1,
            randomization_window_in_samples=2**40,
            num_threads=0,
        ) as source:
            source.next_minibatch(2**17)
            longest = 0
            for _ in range(20):
                source.next_minibatch(2**17)
                longest = max(longest, len(json.dumps(source.get_checkpoint_state())))
            assert longest < 1024


def without(key: str) -> Callable[[State], object]:
    return lambda state: {name: state[name] for name in state if name != key}


def with_(**changes: object) -> Callable[[State], object]:
    return lambda state: state | changes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("position"), "no key 'position'"),
        (without("seed"), "no key 'seed'"),
        (without("version"), "no key 'version'"),
        (with_(position="3"), "'position' must be of type int, got '3'"),
        (with_(position=3.0), "'position' must be of type int, got 3.0"),
        (with_(position=True), "'position' must be of type int, got True"),
        (with_(position=None), "'position' must be of type int, got None"),
        (with_(position=-1), r"'position' must be in \[0, 2\^63\), got -1"),
        (with_(position=2**63), r"'position' must be in \[0, 2\^63\), got 9223372036854775808"),
        (with_(randomize=1), "'randomize' must be of type bool, got 1"),
        (with_(names=7), "'names' must be of type str, got 7"),
        (with_(version=99, anew=1), "has version 99, not 1"),
        (with_(version="1"), "has version '1', not 1"),
        (with_(order_version=2), "order_version is 1 here and 2 in the state"),
        (with_(foreign=1), "unknown keys: 'foreign'"),
        (lambda state: list(state.items()), "must be a dict, got list"),
        (lambda state: json.dumps(state), "must be a dict, got str"),
        (lambda state: None, "must be a dict, got NoneType"),
        (lambda state: {}, "no key 'position'"),
    ],
)
def test_what_is_no_state_is_refused_and_the_source_goes_on(
    change: Callable[[State], object], message: str
) -> None:
    with source_with() as source:
        source.next_minibatch(4)
        time = source.current_position
        with pytest.raises(sh.StateError, match=message):
            source.restore_from_checkpoint(change(source.get_checkpoint_state()))
        assert source.current_position == time
        assert source.next_minibatch(4).nominal_time == time


# Other processes ------------------------------------------------------------------------------

# Goes on from a state in a fresh process, and prints what it saw.
CONTINUE = """
import hashlib, json, sys
import numpy as np
import sweephand as sh

job = json.load(sys.stdin)
lengths = job["lengths"]
source = sh.MinibatchSource(
    sh.ArrayDeserializer(
        {"x": (np.arange(sum(lengths), dtype=np.int32), np.cumsum([0, *lengths]))},
        chunk_size=job["chunk_size"],
    ),
    **job["options"],
)
if job["state"] is not None:
    source.restore_from_checkpoint(job["state"])
steps = []
for size in job["sizes"]:
    minibatch = source.next_minibatch(size)
    values = minibatch["x"].values
    steps.append([minibatch.nominal_time, minibatch.ids, hashlib.sha256(values).hexdigest()])
print(json.dumps({"steps": steps, "state": source.get_checkpoint_state()}))
"""


def run(job: dict[str, Any], python: str = sys.executable) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-c", CONTINUE],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def a_job(state: State | None, sizes: list[int], **options: Any) -> dict[str, Any]:
    order = {
        "randomization_seed": 2**64 - 1,
        "num_lanes": 6,
        "randomization_window_in_chunks": 12,
    }
    lengths = [1 + n * n % 7 for n in range(100)]
    return {
        "lengths": lengths,
        "chunk_size": 3,
        "options": order | options,
        "state": state,
        "sizes": sizes,
    }


def test_a_state_moves_between_processes() -> None:
    whole = run(a_job(None, [40] * 12))
    first = run(a_job(None, [40] * 5, num_threads=2))
    again = run(a_job(first["state"], [40] * 7, num_threads=0))
    assert first["steps"] + again["steps"] == whole["steps"]
    assert again["state"] == whole["state"]
