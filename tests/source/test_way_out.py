"""Whether a loop can be left is seen from its code."""

import sys
from collections.abc import Iterator

import pytest

from sweephand.source.way_out import has_way_out

ENDLESS = [
    "for x in ask(): pass",
    "for x in ask():\n  if x: continue\n  x + 1",
    "for n, x in enumerate(ask()):\n  for y in range(3):\n    if y: break",
    "for x in ask():\n  while x:\n    x -= 1",
]
LEFT = [
    "for x in ask():\n  if x == 99: break",
    "for x in ask():\n  if x == 99: break\n  x + 1",
    "for x in ask():\n  if x != 99: continue\n  break\nelse:\n  x = 1",
    "def f():\n  for x in ask():\n    if x: return x\nf()",
    "for x in ask():\n  if x == 9: raise ValueError",
    "def f():\n  for x in ask():\n    yield x\nnext(f())",
    "next(ask())",
    "import itertools\nlist(itertools.islice(ask(), 2))",
    "[x for x in ask()]",
    "for n in range(3):\n  for x in ask():\n    if x: break",
]


class Asked(Exception):
    """Ends the loop, and says what was seen of it."""


def ask() -> Iterator[int]:
    raise Asked(has_way_out(sys._getframe(1)))
    yield 1


@pytest.mark.parametrize(
    ("code", "leaves"), [(code, code in LEFT) for code in [*ENDLESS, *LEFT]]
)
def test_what_leaves_a_loop_is_found(code: str, leaves: bool) -> None:
    with pytest.raises(Asked) as seen:
        exec(compile(code, "user", "exec"), {"ask": ask})
    assert seen.value.args == (leaves,)
