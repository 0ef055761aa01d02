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
from sweephand.maps.digests import function_digest

tokenizers = pytest.importorskip("tokenizers")

Function = Callable[[dict[str, Any]], dict[str, Any]]


def add(sequence: dict[str, Any], more: int) -> dict[str, Any]:
    return {"x": sequence["x"] + more}


def multiply(sequence: dict[str, Any], factor: int) -> dict[str, Any]:
    return {"x": sequence["x"] * factor}


@dataclass
class Shift:
    by: int

    def __call__(self, sequence: dict[str, Any]) -> dict[str, Any]:
        return {"x": sequence["x"] + self.by}


class Kind(enum.Enum):
    ONE = 1


def within(more: int) -> Function:
    def shift(sequence: dict[str, Any]) -> dict[str, Any]:
        return {"x": sequence["x"] + more}

    return shift


def of_text(text: str) -> Any:
    """Run a script, and return what it calls `shift`."""
    known: dict[str, Any] = {"np": np, "__name__": "script"}
    exec(text, known)
    return known["shift"]


def with_default(sequence: dict[str, Any], more: int = 1) -> dict[str, Any]:
    return {"x": sequence["x"] + more}


def other_default(sequence: dict[str, Any], more: int = 2) -> dict[str, Any]:
    return {"x": sequence["x"] + more}


SCRIPT = """
MORE = {more}
def helper(x):
    {say}
    return x + MORE
def shift(sequence):
    return {{"x": np.asarray(helper(sequence["x"]))}}
"""

# Pairs of functions with one name that do different things.
PAIRS: dict[str, tuple[Any, Any]] = {
    "lambda": (lambda s: {"x": s["x"] + 1}, lambda s: {"x": s["x"] + 2}),
    "partial": (functools.partial(add, more=10), functools.partial(multiply, factor=5)),
    "arguments": (functools.partial(add, more=10), functools.partial(add, more=11)),
    "object": (Shift(1), Shift(2)),
    "method": (Shift(1).__call__, Shift(2).__call__),
    "closure": (within(1), within(2)),
    "array": (within(np.array([1])), within(np.array([2]))),  # type: ignore[arg-type]
    "default": (with_default, other_default),
    "global": (
        of_text(SCRIPT.format(more=1, say="pass")),
        of_text(SCRIPT.format(more=2, say="pass")),
    ),
    "wrapped": (functools.lru_cache(within(1)), functools.lru_cache(within(2))),
}


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"x": [n, n + 1]}) + "\n" for n in range(20)))
    return path


def values(corpus: sh.Deserializer) -> list[bytes]:
    return sorted(sequence["x"] for _, sequence in all_of(corpus, sweeps=1))


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "wrapped"])
def test_another_function_has_its_own_cache_and_state(name: str, lines: Path) -> None:
    states, found = [], []
    for function in PAIRS[name]:
        kept = sh.open(lines).map(function, name="shift", cache=True)
        found.append(values(kept))
        assert found[-1] == values(sh.open(lines).map(function, name="shift"))
        with sh.MinibatchSource(kept) as source:
            states.append(source.state_dict())
            assert len(json.dumps(states[-1])) < 1000
    assert found[0] != found[1]
    mine = sh.MinibatchSource(sh.open(lines).map(PAIRS[name][1], name="shift"))
    mine.load_state_dict(states[1])
    with pytest.raises(sh.StateError, match=r"functions are .*map shift 1.*give version="):
        mine.load_state_dict(states[0])
    by_hand = sh.open(lines).map(PAIRS[name][1], name="shift", version=1)
    sh.MinibatchSource(by_hand).load_state_dict(states[0])
    states[0]["functions"] = states[0]["functions"].replace("cpython-3", "cpython-4")
    mine.load_state_dict(states[0])  # the code of another version of Python


@pytest.mark.parametrize("name", PAIRS)
def test_digests_differ_as_functions_do(name: str) -> None:
    one, other = PAIRS[name]
    assert len(function_digest(one)) == len(function_digest(other)) == 16
    assert function_digest(one) != function_digest(other)


def test_what_says_nothing_of_a_function_is_not_in_its_digest() -> None:
    scripts = [SCRIPT.format(more=1, say=say) for say in ("'is'", "'adds'", "# comment")]
    assert function_digest(of_text(scripts[0])) == function_digest(of_text("\n\n" + scripts[0]))
    first, second = (
        of_text(f"def shift(s):\n    '''{say}'''\n    return s") for say in ("A.", "Another.")
    )
    assert function_digest(first) == function_digest(second)
    assert function_digest(within(3)) == function_digest(within(3))
    assert function_digest(lambda s: (s, 1)) != function_digest(lambda s: (s, 1.0))
    assert function_digest(lambda s: s in {1, 2}) == function_digest(lambda s: s in {2, 1})


def vocabulary(words: str) -> Any:
    model = tokenizers.models.WordLevel(
        {word: n for n, word in enumerate(words)}, unk_token="a"
    )
    return tokenizers.Tokenizer(model)


def everything() -> tuple[Any, ...]:
    """Return objects of which the digest has to be the same in every process."""
    tokenizer = vocabulary("abcdefgh")
    return (
        *PAIRS["partial"],
        Shift(1),
        lambda s: tokenizer.encode(s["x"]),
        {"b", "a"} and {"set": {"x", "y", "z"}, "kind": Kind.ONE},
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


def test_a_tokenizer_that_is_trained_anew_encodes_anew(lines: Path) -> None:
    found = []
    for words in ("ab", "ba"):
        tokenizer = vocabulary(words)

        def tokenize(sequence: dict[str, Any], tokenizer: Any = tokenizer) -> dict[str, Any]:
            return {"x": np.array(tokenizer.encode("b").ids)}

        mapped = sh.open(lines).map(tokenize, size="measured", cache=True)
        found.append({np.frombuffer(one, np.int64).item() for one in values(mapped)})
    assert found == [{1}, {0}]


def test_options_of_maps_of_ours_are_in_their_digests() -> None:
    digests = {
        function_digest(one)
        for one in (
            sh.decode.image("image"),
            sh.decode.image("image", size=64),
            sh.decode.image("image", size=128),
            sh.images.patchify("image", placeholder=1),
            sh.images.patchify("image", placeholder=2),
        )
    }
    assert len(digests) == 5


LOCK = threading.Lock()


def locked(sequence: dict[str, Any]) -> dict[str, Any]:
    with LOCK:
        return {"x": np.repeat(sequence["x"], 2)}


def test_what_has_no_digest_is_not_kept_and_named(lines: Path) -> None:
    with pytest.raises(
        ValueError, match=r"no digest \(LOCK is a _thread.lock\): give version="
    ):
        sh.open(lines).map(locked, size="measured", cache=True)
    for _ in range(2):
        with pytest.warns(sh.SweephandHint, match="measured whenever it is opened.*LOCK"):
            source = sh.MinibatchSource(sh.open(lines).map(locked, size="measured"))
        assert source.state_dict()["functions"].endswith("map locked 1 ?LOCK is a _thread.lock")
        source.close()
    by_hand = sh.open(lines).map(locked, version=1, size="measured", cache=True)
    assert len(values(by_hand)) == 20


@pytest.mark.parametrize("cache", [True, False])
def test_what_is_kept_is_compared_with_what_is_made_now(
    cache: bool, lines: Path, tmp_path: Path
) -> None:
    beside = tmp_path / "more.txt"

    def reads(sequence: dict[str, Any]) -> dict[str, Any]:
        return {"x": np.repeat(sequence["x"], 2)[: int(beside.read_text())]}

    def values_of(sequence: dict[str, Any]) -> dict[str, Any]:
        return {"x": sequence["x"] * int(beside.read_text())}

    for function in (reads, values_of) if cache else (reads,):
        beside.write_text("2")
        mapped = sh.open(lines).map(function, size="measured", cache=cache)
        first = values(mapped)
        assert values(mapped) == first
        beside.write_text("3")
        with pytest.raises(sh.StaleError, match=r"where .* kept|other values of stream 'x'"):
            values(mapped)
    beside.write_text("0")
    kept = sh.open(lines).filter(lambda s: int(beside.read_text()) > 1, name="all", version=1)
    beside.write_text("2")
    assert len(values(kept)) == 20
    beside.write_text("0")
    with pytest.raises(sh.StaleError, match=r"sizes \[\] where \[1\] were kept"):
        values(kept)


def test_numbers_that_processors_sum_otherwise_are_the_same(lines: Path) -> None:
    noise = [0.0]

    def scaled(sequence: dict[str, Any], noise: list[float] = noise) -> dict[str, Any]:
        return {"x": sequence["x"] * (1.0 + noise[0])}

    first = values(sh.open(lines).map(scaled, version=1, cache=True))
    noise[0] = 1e-6
    assert values(sh.open(lines).map(scaled, version=1, cache=True)) == first
    noise[0] = 0.1
    with pytest.raises(sh.StaleError, match="other values of stream 'x'"):
        values(sh.open(lines).map(scaled, version=1, cache=True))


def test_another_function_of_groups_is_another_split(lines: Path) -> None:
    parts = [
        sh.split(sh.open(lines), validation=0.5, by=by)[1]
        for by in (lambda name: name[-1:], lambda name: name[-1:] + "")
    ]
    state = sh.MinibatchSource(parts[0]).state_dict()
    with pytest.raises(sh.StateError, match="functions are"):
        sh.MinibatchSource(parts[1]).load_state_dict(state)
