"""Foreign text, such as names of files, made safe to print."""

from __future__ import annotations

import re

# Control characters, which may move the cursor, ring, or retitle a terminal; marks that turn
# the direction of text; and halves of surrogate pairs, which no terminal takes.
_UNSAFE = "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"

_LONGEST = 80  # characters of a value


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text with everything escaped that a terminal would not just show.

    Parameters
    ----------
    text : str
        What `os.fsdecode` made of a name may hold bytes that are no text; they become ``\xff``.
    keep : str
        Characters that stay, such as line ends in prose.

    Examples
    --------
    >>> print(printable("a\x1b[31m.bin"), printable("b\udcff\n"))
    a\x1b[31m.bin b\xff\n
    """

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character in keep:
            return character
        if "\udc80" <= character <= "\udcff":
            return f"\\x{ord(character) - 0xDC00:02x}"
        return character.encode("unicode_escape", "surrogatepass").decode()

    return re.sub(_UNSAFE, escape, text)


def shown(value: object) -> str:
    """Return a value as an error shows it: a number or short text as it is, else its kind.

    Examples
    --------
    >>> shown(3), shown("x"), shown([1, 2]), shown(int)
    ('3', "'x'", 'list of 2', 'the class int')
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        text = printable(repr(value))
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{name} of shape {tuple(map(int, shape))}"
    if isinstance(value, list | tuple | dict | set | frozenset):
        return f"{name} of {len(value)}"
    return name
