"""All JSON that is written is JSON that every reader takes, and comes back as it was."""

import ast
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.train.small import LENGTHS, line_trainer, source_of_lengths

import sweephand as sh
from sweephand.run.writing import of_json, to_json

PACKAGE = Path(sh.__file__).parent


def strict(text: str) -> Any:
    """Parse JSON as those do who know no Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON: {text[:200]}")

    return json.loads(text, parse_constant=refuse)


LOOK_ALIKES = st.sampled_from(
    ["inf", "-inf", "nan", "'inf", "''nan", "'", "infinite", "Infinity"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | LOOK_ALIKES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(LOOK_ALIKES | st.text(), inner, max_size=4)
    ),
)


@given(VALUES)
def test_what_is_written_is_strict_and_comes_back(value: Any) -> None:
    text = to_json(value)
    assert repr(of_json(strict(text))) == repr(value)
    if text != json.dumps(value):  # what is finite is written as ever
        assert any(one in json.dumps(value) for one in ("Infinity", "NaN", "inf", "nan"))
    assert repr(of_json(json.loads(json.dumps(float("-inf"))))) == "-inf"  # of an old version


def dumps() -> Iterator[tuple[Path, ast.Call]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in ("dump", "dumps") and ast.unparse(node.func.value) == "json":
                yield path, node


def test_no_module_writes_json_that_is_not_strict() -> None:
    found = list(dumps())
    assert len(found) > 5
    lax = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path, node in found
        if "allow_nan=False" not in map(ast.unparse, node.keywords)
    ]
    assert not lax


class Odd:
    """What a user keeps in checkpoints, with numbers that JSON does not have."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state


ODD = {"best": math.inf, "worst": [-math.inf, math.nan], "name": "inf", "inf": "'nan"}


def test_a_session_writes_strict_json_and_goes_on(tmp_path: Path) -> None:
    def train(odd: Odd, samples: int) -> None:
        sh.training_session(
            line_trainer(stateful={"odd": odd}),
            source_of_lengths(LENGTHS),
            12,
            max_samples=samples,
            checkpoint_config=sh.CheckpointConfig(tmp_path, frequency=20),
        ).train()

    odd, again = Odd(), Odd()
    odd.state = dict(ODD)
    train(odd, 45)
    states = list(tmp_path.rglob("state.json"))
    assert states
    for path in states:
        strict(path.read_text())
    train(again, 90)
    assert repr(again.state) == repr(ODD)
