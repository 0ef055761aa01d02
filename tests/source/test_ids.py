"""Law 11: every sequence has an id, from which its times follow and which follows from them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model
from tests.sources import KINDS, as_served, numbers, serving
from tests.strategies import timelines

import sweephand as sh

PREFIX = {"array": "array", "npy": "label.npy"}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_time_leads_to_ids_and_an_id_to_its_time(kind: str, data: st.DataObject) -> None:
    corpus, settings = as_served(kind, *data.draw(timelines()))
    with serving(kind, corpus, settings) as source:
        sequence = data.draw(st.integers(0, corpus.num_sequences - 1))
        sweep = data.draw(st.sampled_from([0, 1, 10**6]))
        name = f"{PREFIX.get(kind, 'Chunks')}__{sequence}"
        time = source.find(name, sweep)
        assert time == model.find(corpus, settings, sequence, sweep)
        assert source.sequence_ids(time, time + 1) == [name]
        source.current_position = time
        minibatch = source.next_minibatch(1)
        assert minibatch.ids == [name]
        assert minibatch.nominal_time == time


def test_times_are_found_without_reading(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(1000))
    with sh.MinibatchSource(sh.NpyDeserializer({"x": path})) as source:
        path.write_bytes(b"")
        ids = source.sequence_ids(0, 1000)
        assert sorted(numbers(ids)) == list(range(1000))
        assert [source.find(name) for name in ids[:50]] == list(range(50))
        assert source.stats()["bytes_assembled"] == 0


def source_over(**options: Any) -> sh.MinibatchSource:
    values = (np.arange(6), [0, 2, 3, 6])
    layout = options.pop("layout", None)
    return sh.MinibatchSource(sh.ArrayDeserializer({"x": values}, **options), layout=layout)


@pytest.mark.parametrize("name", ["a__1", "__", "a__", "", "naïve name", "x#0"])
def test_a_name_may_hold_what_ids_are_made_of(name: str) -> None:
    for layout in (None, sh.Frames()):
        with source_over(name=name, layout=layout) as source:
            times = [source.find(found) for found in source.sequence_ids(0, 6)]
            assert times == sorted(times)
            assert len(set(times)) == source.num_sequences_per_sweep


NO_IDS = """
array__3 array__-1 array__01 array__+1 array__1_0 array__\u0661 array__\u00b2 array array_1
array__ other__1 1 __1 array__1__1 ARRAY__1 array__1#0
"""


NO_SAMPLE_IDS = """
array__1 array__1#1 array__0#2 array__0#-1 array__0#01 array__0#\u0661 array__3#0 array__0# #0
array__0#0#0 array__00#0
"""


@pytest.mark.parametrize(
    ("layout", "wrongs"),
    [(None, [*NO_IDS.split(), "", "array__1 "]), (sh.Frames(), NO_SAMPLE_IDS.split())],
)
def test_what_is_no_id_is_a_key_error(layout: sh.Layout | None, wrongs: list[str]) -> None:
    with source_over(layout=layout) as source:
        for wrong in wrongs:
            with pytest.raises(KeyError, match="has the id"):
                source.find(wrong)


def test_given_ids_replace_the_numbers() -> None:
    with source_over(ids=["b", "a__0", "array__0"]) as source:
        assert sorted(source.sequence_ids(0, 6)) == ["a__0", "array__0", "b"]
        assert source.find("b") == source.find("b", 1) % 6 == source.find("b")
        with pytest.raises(KeyError, match="array__1"):
            source.find("array__1")
    with source_over(ids=np.array([7, 8, 10**12])) as source:
        assert sorted(source.next_minibatch(6).ids) == ["1000000000000", "7", "8"]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "a"], "ids must be unique, 'a' is there more than once"),
        ([1, 2, "1"], "ids must be unique, '1' is there more than once"),
        (["a", "b"], "2 ids are given for 3 sequences"),
    ],
)
def test_ids_that_do_not_name_every_sequence_are_refused(ids: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        source_over(ids=ids)


def test_the_last_times_of_the_timeline_are_found() -> None:
    with source_over() as source:
        last = (2**63 - 2**32) // 6
        time = source.find("array__0", last - 1)
        assert source.sequence_ids(time, time + 1) == ["array__0"]
        with pytest.raises(ValueError, match="sweep must be in"):
            source.find("array__0", 2**63 // 6)
