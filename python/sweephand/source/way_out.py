"""Whether a loop of the user's can be left."""

from __future__ import annotations

import dis
from types import FrameType

_JUMPS = {*dis.hasjrel, *dis.hasjabs}
# What may leave a loop; who asks a generator may, and a comprehension is over a part, mostly.
_LEAVES = ("RETURN", "RAISE", "YIELD", "SEND", "LIST_APPEND", "SET_ADD", "MAP_ADD")


def has_way_out(frame: FrameType) -> bool:
    """Whether a break, return, raise or yield leaves the ``for`` that a frame has come to.

    True as well where it is no ``for`` statement that asks for the next item.
    """
    steps = list(dis.get_instructions(frame.f_code))
    loop = next((one for one in steps if one.offset == frame.f_lasti), None)
    if loop is None or not loop.opname.startswith("FOR_ITER"):
        return True
    begin, end = loop.offset, loop.argval
    body = [one for one in steps if begin < one.offset < end]
    falls_out = not body or not body[-1].opname.startswith("JUMP")  # behind a break
    return falls_out or any(
        one.opname.startswith(_LEAVES)
        or (one.opcode in _JUMPS and not begin <= one.argval < end)
        for one in body
    )
