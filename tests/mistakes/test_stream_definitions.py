"""How newcomers name the streams that they want, and what they are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.mistakes.mistake import Mistake, assert_said, each
from tests.mistakes.newcomer import npz

import sweephand as sh

STREAM_DEF: Any = sh.StreamDef

MISTAKES = [
    Mistake(
        "a name alone", lambda f: sh.open(npz(f), "x"), TypeError, ("a list of names", "['x']")
    ),
    Mistake(
        "a definition alone",
        lambda f: sh.open(npz(f), STREAM_DEF()),
        TypeError,
        ("StreamDefs(NAME=StreamDef(...))",),
    ),
    Mistake("no streams", lambda f: sh.open(npz(f), []), ValueError, ("at least one stream",)),
    Mistake(
        "a name twice",
        lambda f: sh.open(npz(f), ["x", "x"]),
        ValueError,
        ("'x' is listed twice",),
    ),
    Mistake(
        "definitions in a list",
        lambda f: sh.open(npz(f), [STREAM_DEF()]),
        TypeError,
        ("got StreamDef", "StreamDefs(NAME=StreamDef(...))"),
    ),
    Mistake(
        "a number as streams",
        lambda f: sh.open(npz(f), 2),  # type: ignore[arg-type]
        TypeError,
        ("a list of names, got int",),
    ),
    Mistake(
        "a misspelt dtype",
        lambda _: sh.StreamDef(dtype="flot32"),
        TypeError,
        ("'float32' or 'int64', got 'flot32'",),
    ),
    Mistake(
        "a dtype of text", lambda _: sh.StreamDef(dtype=str), TypeError, ("leave dtype out",)
    ),
    Mistake(
        "a shape in quotes", lambda _: STREAM_DEF(shape="784"), TypeError, ("such as 784",)
    ),
    Mistake(
        "a shape to be found", lambda _: STREAM_DEF(shape=(-1, 3)), ValueError, ("got -1",)
    ),
    Mistake(
        "one transform",
        lambda _: STREAM_DEF(transforms=abs),
        TypeError,
        ("transforms=[function]",),
    ),
]


@each(MISTAKES)
def test_a_mistake_is_told_with_its_way_out(mistake: Mistake, tmp_path: Path) -> None:
    assert_said(mistake, tmp_path)
