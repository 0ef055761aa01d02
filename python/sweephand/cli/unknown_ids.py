"""Messages for an id that no sequence has."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from sweephand.corpus.corpus import Corpus

_MOST_LOOKED_AT = 5000
_MAX_NAMED = 3


def unknown_id(wanted: str, corpus: Corpus) -> str:
    """Return the form of a corpus's ids, and those similar to an unknown id."""
    first = corpus.ids.names(np.array([0], np.uint64))[0]
    message = f"no sequence has the id {wanted!r}; here ids look like {first!r}"
    near = _near(wanted, corpus, first)
    return f"{message}; near to it: {', '.join(map(repr, near))}" if near else message


def unknown_among(wanted: str, names: Sequence[str]) -> str:
    """Return the same message for sequences with these names."""
    message = f"no sequence here has the id {wanted!r}; ids look like {names[0]!r}"
    step = -(-len(names) // _MOST_LOOKED_AT)
    near = get_close_matches(wanted, names[::step], _MAX_NAMED)
    return f"{message}; near to it: {', '.join(map(repr, near))}" if near else message


def _near(wanted: str, corpus: Corpus, first: str) -> list[str]:
    """Return up to three ids: with the file that was left out, or of similar spelling."""
    guesses = [first.rpartition("__")[0] + f"__{wanted.rpartition('__')[2]}"]
    found = [guess for guess in guesses if _is_there(guess, corpus)]
    count = corpus.num_sequences
    places = np.unique(np.linspace(0, count - 1, min(count, _MOST_LOOKED_AT)).astype(np.uint64))
    names = corpus.ids.names(places)
    found += [name for name in names if name.endswith(f"/{wanted}")][:_MAX_NAMED]
    found += get_close_matches(wanted, names, _MAX_NAMED)
    return list(dict.fromkeys(found))[:_MAX_NAMED]


def _is_there(name: str, corpus: Corpus) -> bool:
    try:
        corpus.ids.number(name)
    except KeyError:
        return False
    return True
