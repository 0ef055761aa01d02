"""Messages for an id that no sequence has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sweephand.corpus.corpus import Corpus
from sweephand.errors import shown

_MOST_LOOKED_AT = 5000
_MAX_NAMED = 3


def unknown_id(wanted: str, corpus: Corpus) -> str:
    """Return the form of a corpus's ids, and those similar to an unknown id."""
    return f"no sequence has the id {wanted!r}{like_ids(wanted, corpus)}"


def like_ids(wanted: str, corpus: Corpus) -> str:
    """Return how ids of a corpus look, and those similar to an unknown id, to be appended."""
    first = corpus.ids.names(np.array([0], np.uint64))[0]
    message = f"; here ids look like {first!r}"
    near = _near(wanted, corpus, first)
    return f"{message}; near to it: {', '.join(map(repr, near))}" if near else message


def number_of(wanted: object, corpus: Corpus) -> int:
    """Return the number of the sequence of an id.

    Raises
    ------
    TypeError
        If the id is no text.
    KeyError
        If there is none, with ids that are similar.
    """
    if not isinstance(wanted, str):
        first = corpus.ids.names(np.array([0], np.uint64))[0]
        raise TypeError(f"an id is text, such as {first!r}, got {shown(wanted)}")
    try:
        return corpus.ids.number(wanted)
    except KeyError as error:
        raise KeyError(f"{error.args[0]}{like_ids(wanted, corpus)}") from None


def unknown_among(wanted: str, names: Sequence[str]) -> str:
    """Return the same message for sequences with these names."""
    message = f"no sequence here has the id {wanted!r}; ids look like {names[0]!r}"
    step = -(-len(names) // _MOST_LOOKED_AT)
    near = _similar(wanted, names[::step])
    return f"{message}; near to it: {', '.join(map(repr, near))}" if near else message


def _similar(wanted: str, names: Sequence[str]) -> list[str]:
    """Return up to three names of similar spelling."""
    import difflib  # only here, as it takes its time to import

    return difflib.get_close_matches(wanted, names, _MAX_NAMED)


def _near(wanted: str, corpus: Corpus, first: str) -> list[str]:
    """Return up to three ids: with the file that was left out, or of similar spelling."""
    guesses = [first.rpartition("__")[0] + f"__{wanted.rpartition('__')[2]}"]
    found = [guess for guess in guesses if _is_there(guess, corpus)]
    count = corpus.num_sequences
    places = np.unique(np.linspace(0, count - 1, min(count, _MOST_LOOKED_AT)).astype(np.uint64))
    names = corpus.ids.names(places)
    found += [name for name in names if name.endswith(f"/{wanted}")][:_MAX_NAMED]
    found += _similar(wanted, names)
    return list(dict.fromkeys(found))[:_MAX_NAMED]


def _is_there(name: str, corpus: Corpus) -> bool:
    try:
        corpus.ids.number(name)
    except KeyError:
        return False
    return True
