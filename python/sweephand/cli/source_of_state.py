"""A source over a corpus, in the order of a state."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweephand.deserializers.deserializer import Deserializer
from sweephand.errors import StateError
from sweephand.events.event import Event
from sweephand.layouts import Layout
from sweephand.layouts.by_name import layout_by_name
from sweephand.source.by_score import ByScore
from sweephand.source.limits import FULL_DATA_SWEEP
from sweephand.source.source import MinibatchSource
from sweephand.source.state import State

_ADVICE = "SCRIPT.py:NAME may name the source of the run in place of its corpus"


def source_of_state(
    corpus: Deserializer,
    state_dict: Mapping[str, Any],
    events: Sequence[Event] = (),
    scores: str | None = None,
) -> MinibatchSource:
    """Return a source in the order of a state, at its start.

    Parameters
    ----------
    corpus : Deserializer
    state_dict : dict
        The state.
    events : sequence of Event
    scores : str, optional
        Of an order by score, as on a command line: a state has only their digest.

    Raises
    ------
    StateError
        If it is no state, of another corpus, or has no words for all of its options.
    """
    state = State.from_dict(state_dict)
    options: dict[str, Any] = {
        "layout": _layout(state.layout),
        "randomize": state.randomize,
        "randomization_seed": state.seed,
        "num_lanes": state.num_lanes,
        "order": ByScore(scores) if scores else None,
        "num_threads": 0,
        "events": list(events),
    }
    refused: StateError | None = None
    for window in _windows(state.window):
        source = MinibatchSource(corpus, **options, **window)
        known = source.timeline.events.split(state.events)
        try:
            with_events = known[0] if known else source.timeline.events
            state.check_same_order(source.timeline.state, with_events)
            return source
        except StateError as error:
            refused = refused or error
            source.close()
    raise StateError(f"{refused}; {_ADVICE}") from None


def _windows(window: str) -> Iterator[dict[str, Any]]:
    """Return the options of a window: the default, in any of its forms, or a named window."""
    yield {}
    if window == "all":
        yield {"randomization_window_in_samples": FULL_DATA_SWEEP}
    elif found := re.fullmatch(r"(\d+) (chunks|samples)", window):
        yield {f"randomization_window_in_{found[2]}": int(found[1])}


def _layout(layout: str) -> Layout:
    """Return the layout that a state describes in words."""
    try:
        call = ast.parse(layout, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        values = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
        return layout_by_name(call.func.id, values)
    except (KeyError, SyntaxError, TypeError, ValueError):
        raise StateError(
            f"the state has no words for all of its layout, {layout!r}; {_ADVICE}"
        ) from None
