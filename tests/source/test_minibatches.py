"""Minibatches of every deserializer, layout and engine are those of the model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model
from tests.sources import (
    KINDS,
    as_served,
    check_share,
    engines,
    limit_of,
    request_of,
    serving,
)
from tests.strategies import any_timelines, limits, requests, times, workers

import sweephand as sh

balances = st.sampled_from([None, "samples", "attention", 30])


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_walk_along_the_timeline_is_the_one_of_the_model(
    kind: str, data: st.DataObject
) -> None:
    corpus, settings = as_served(kind, *data.draw(any_timelines()))
    limit = data.draw(limits(corpus))
    balance = data.draw(balances) if not settings.keeps_order else None
    time = data.draw(times(corpus))
    time = model.round_up(corpus, settings, time if limit is None else min(time, limit))
    options = data.draw(engines()) | {"max_samples": limit_of(limit)}
    options["balance"] = sh.Attention(balance) if isinstance(balance, int) else balance
    with serving(kind, corpus, settings, **options) as source:
        source.current_position = time
        for _ in range(data.draw(st.integers(1, 6))):
            request = data.draw(requests(corpus))
            count = data.draw(workers(settings))
            rank = data.draw(st.integers(0, count - 1))
            taken = model.minibatch(corpus, settings, time, request, limit)
            share = model.shares(corpus, settings, taken, count, balance)[rank]
            assert source.current_position == time
            minibatch = source.next_minibatch(
                request_of(request), num_data_partitions=count, partition_index=rank
            )
            check_share(minibatch, corpus, taken, share)
            time += sum(entry.size for entry in taken)
