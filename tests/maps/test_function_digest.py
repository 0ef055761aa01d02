"""A function is known by its code and what it uses: in a cache, in sizes, in states."""

from __future__ import annotations

import enum
import functools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.maps.test_values import all_of

import sweephand as sh
from sweephand.maps.functions import function_digest

tokenizers = pytest.importorskip("tokenizers")


def add(sequence: dict[str, Any], more: int = 1) -> dict[str, Any]:
    return {"x": sequence["x"] + more}


def multiply(sequence: dict[str, Any], more: int = 2) -> dict[str, Any]:
    return {"x": sequence["x"] * more}


@dataclass
class Shift:
    by: Any

    def __call__(self, sequence: dict[str, Any]) -> dict[str, Any]:
        return {"x": sequence["x"] + self.by}


class Kind(enum.Enum):
    ONE = 1


def within(more: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def shift(sequence: dict[str, Any]) -> dict[str, Any]:
        return {"x": sequence["x"] + more}

    return shift


def of_text(text: str) -> Any:
    """Run a script, and return what it calls `shift`."""
    known: dict[str, Any] = {"np": np, "__name__": "script"}
    exec(text, known)
    return known["shift"]


SCRIPT = """
MORE = {more}
def helper(x, depth=1):
    {say}
    return helper(x, 0) if depth else x + MORE
def shift(sequence):
    return {{"x": np.asarray(helper(sequence["x"]))}}
class Object:
    def __call__(self, sequence):
        return {{"x": sequence["x"] + {more}}}
"""


def vocabulary(words: str) -> Any:
    ids = {word: number for number, word in enumerate(words)}
    return tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="a"))


# Pairs of functions with one name that do different things.
PAIRS: dict[str, tuple[Any, Any]] = {
    "lambda": (lambda s: {"x": s["x"] + 1}, lambda s: {"x": s["x"] + 2}),
    "type of a constant": (lambda s: (s, 1), lambda s: (s, 1.0)),
    "partial": (functools.partial(add, more=10), functools.partial(multiply, more=10)),
    "arguments": (functools.partial(add, more=10), functools.partial(add, more=11)),
    "object": (Shift(1), Shift(2)),
    "method": (Shift(1).__call__, Shift(2).__call__),
    "closure": (within(1), within(2)),
    "array": (within(np.array([1])), within(np.array([2]))),
    "default": (of_text("def shift(s, n=1): return s"), of_text("def shift(s, n=2): return s")),
    "global": tuple(of_text(SCRIPT.format(more=n, say="pass")) for n in (1, 2)),
    "code of a class": tuple(
        of_text(SCRIPT.format(more=n, say="pass") + "shift = Object()") for n in (1, 2)
    ),
    "wrapped": (functools.lru_cache(within(1)), functools.lru_cache(within(2))),
    "tokenizer": (within(vocabulary("ab")), within(vocabulary("ba"))),
    "size": (sh.decode.image("image", size=64), sh.decode.image("image", size=128)),
    "patches": tuple(sh.images.patchify("image", placeholder=n) for n in (1, 2)),
}


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"x": [n, n + 1]}) + "\n" for n in range(20)))
    return path


def values(corpus: sh.Deserializer) -> list[bytes]:
    return sorted(sequence["x"] for _, sequence in all_of(corpus, sweeps=1))


def test_another_function_has_its_own_cache_and_state(lines: Path) -> None:
    states, found = [], []
    for function in PAIRS["closure"]:
        kept = sh.open(lines).map(function, name="shift", cache=True)
        found.append(values(kept))
        assert found[-1] == values(sh.open(lines).map(function, name="shift"))
        with sh.MinibatchSource(kept) as source:
            states.append(source.state_dict())
            assert len(json.dumps(states[-1])) < 1000
    assert found[0] != found[1]
    mine = sh.MinibatchSource(sh.open(lines).map(PAIRS["closure"][1], name="shift"))
    mine.load_state_dict(states[1])
    with pytest.raises(sh.StateError, match=r"functions are .*map shift 1.*give version="):
        mine.load_state_dict(states[0])
    by_hand = sh.open(lines).map(PAIRS["closure"][1], name="shift", version=1)
    sh.MinibatchSource(by_hand).load_state_dict(states[0])
    states[0]["functions"] = states[0]["functions"].replace("cpython-3", "cpython-4")
    mine.load_state_dict(states[0])  # the code of another version of Python


@pytest.mark.parametrize("name", PAIRS)
def test_digests_differ_as_functions_do(name: str) -> None:
    one, other = map(function_digest, PAIRS[name])
    assert len(one) == len(other) == 16, (one, other)
    assert one != other


def test_what_says_nothing_of_a_function_is_not_in_its_digest() -> None:
    scripts = [SCRIPT.format(more=1, say=say) for say in ("'is'", "'adds'", "# comment")]
    assert len({function_digest(of_text(one)) for one in [*scripts, f"\n\n{scripts[0]}"]}) == 1
    assert function_digest(within(3)) == function_digest(within(3))
    assert function_digest(lambda s: s in {1, 2}) == function_digest(lambda s: s in {2, 1})


def everything() -> tuple[Any, ...]:
    """Return objects of which the digest has to be the same in every process."""
    tokenizer = vocabulary("abcdefgh")
    return (
        *PAIRS["partial"],
        lambda s: tokenizer.encode(s["x"]),
        Shift({"set": {"x", "y", "z"}, "kind": Kind.ONE, "array": np.ones((3, 3))[:, 1]}),
        sh.decode.image("image", size=64),
    )


def test_a_digest_is_the_same_in_another_process() -> None:
    code = (
        "from tests.maps import test_function_digest as t; "
        "print([t.function_digest(one) for one in t.everything()])"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert found[0] == found[1] == str([function_digest(one) for one in everything()])
    assert "?" not in found[0]


LOCK = threading.Lock()


def locked(sequence: dict[str, Any]) -> dict[str, Any]:
    with LOCK:
        return {"x": np.repeat(sequence["x"], 2)}


def test_what_has_no_digest_is_not_kept_and_named(lines: Path) -> None:
    with pytest.raises(ValueError, match=r"no digest \(.*_thread.lock.*\): give version="):
        sh.open(lines).map(locked, size="measured", cache=True)
    for _ in range(2):
        with pytest.warns(sh.SweephandHint, match="measured whenever it is opened.*lock"):
            sh.MinibatchSource(sh.open(lines).map(locked, size="measured")).close()
    by_hand = sh.open(lines).map(locked, version=1, size="measured", cache=True)
    assert len(values(by_hand)) == 20


@pytest.mark.parametrize("case", ["sizes", "values", "filter"])
def test_what_is_kept_is_compared_with_what_is_made_now(case: str, lines: Path) -> None:
    more = [2.0]
    cases: dict[str, Any] = {
        "sizes": lambda s: {"x": np.repeat(s["x"] * 1.0, int(more[0]))},
        "values": lambda s: {"x": np.repeat(s["x"] * more[0], 2)},
        "filter": lambda s: more[0] < 2.5,
    }

    def opened(by: float) -> list[bytes]:
        more[0] = by
        if case == "filter":
            return values(sh.open(lines).filter(cases[case], name=case, version=1))
        kept = sh.open(lines).map(
            cases[case], name=case, version=1, size="measured", cache=case == "values"
        )
        return values(kept)

    first = opened(2.0)
    assert opened(2.0 + 1e-6) == first or case == "sizes"  # processors sum in other orders
    with pytest.raises(sh.StaleError, match=r"where .* kept|other values of stream 'x'"):
        opened(3.0)
