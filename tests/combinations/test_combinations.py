"""Each law holds where features meet: combinations at random, beside the model.

`SWEEPHAND_COMBINATIONS=2000` draws so many.
"""

from __future__ import annotations

import json
import multiprocessing
import os

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests import extent
from tests.combinations import draws
from tests.combinations.combination import Combination
from tests.combinations.refusals import is_served, refusals_of
from tests.combinations.runs import rest_of, serve
from tests.combinations.serve import source_of

DRAWS = int(os.environ.get("SWEEPHAND_COMBINATIONS", 0)) or extent.draws(600)


def drawn(count: int) -> settings:
    return settings(max_examples=count, suppress_health_check=list(HealthCheck))


@drawn(DRAWS)
@given(draws.combinations())
def test_what_is_delivered_is_what_the_model_plans(combination: Combination) -> None:
    assume(is_served(combination))
    serve(combination)


@drawn(max(10, DRAWS // 10))
@given(draws.combinations())
def test_what_is_refused_is_refused_when_the_source_is_made(combination: Combination) -> None:
    why = refusals_of(combination)
    assume(why)
    with pytest.raises(ValueError, match="|".join(why)):
        source_of(combination, combination.events, **dict(combination.engine))


@drawn(max(2, DRAWS // 100))
@given(draws.combinations(), st.lists(st.integers(1, 120), min_size=1, max_size=3))
def test_a_state_goes_on_in_another_process(combination: Combination, sizes: list[int]) -> None:
    assume(is_served(combination))
    with source_of(combination, combination.events, **dict(combination.engine)) as source:
        source.next_minibatch(40)
        state = json.dumps(source.get_checkpoint_state())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(rest_of, (combination, state, sizes))
    assert found == rest_of(combination, state, sizes)
