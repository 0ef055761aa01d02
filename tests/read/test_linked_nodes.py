"""Nodes over links with rates: what leaves the store, and what loops wait for.

Not part of the plain run: SWEEPHAND_DISTRIBUTED=1 python -m pytest tests/read/test_linked_nodes.py
"""

import os

import pytest
from tests.read.linked_nodes import NUM_CHUNKS, SWEEPS, Job, run
from tests.read.network import why_not

if not os.environ.get("SWEEPHAND_DISTRIBUTED"):
    pytest.skip("set SWEEPHAND_DISTRIBUTED=1 to run nodes over links", allow_module_level=True)
pytest.importorskip("aiohttp")
if reason := why_not():
    pytest.skip(reason, allow_module_level=True)


def test_a_node_waits_for_the_store_in_the_first_sweep_and_not_where_others_hold_the_rest() -> (
    None
):
    job = Job(nodes=2, part=1.0, store_rate=0.4)
    found = run(job)
    alone = run(Job(nodes=2, part=1.0, store_rate=0.4, how="alone"))
    for one in (found, alone):
        assert one["codes"] == [0, 0]
        assert not one["warnings"]
        assert one["failures"] == 0
    assert found["content"] == alone["content"]
    assert sum(found["store_chunks"]) <= 1.05 * NUM_CHUNKS
    assert sum(found["store_sent"]) <= 1.05 * NUM_CHUNKS
    assert sum(alone["store_chunks"]) > 1.5 * NUM_CHUNKS
    assert found["waiting"][0] > 0.5
    assert sum(found["waiting"][1:]) <= 0.01 * (SWEEPS - 1)
    assert sum(alone["waiting"][1:]) > 5 * sum(found["waiting"][1:])
