"""Sentences as rows of words, and the buckets that hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.extend import check_int


def encode_sentences(
    sentences: Iterable[Iterable[Hashable]],
    vocab: dict[Any, int] | None = None,
    invalid_label: int = -1,
    invalid_key: Hashable = "\n",
    start_label: int = 0,
    unknown_token: Hashable | None = None,
) -> tuple[list[list[int]], dict[Any, int]]:
    r"""Return sentences of words as sentences of ids, and the vocabulary.

    Parameters
    ----------
    vocab : dict, optional
        Word to id. Without one, ids count up from `start_label` as words come; `invalid_label`
        is left out, which belongs to `invalid_key`.
    unknown_token : hashable, optional
        The word that replaces all words missing in a given vocabulary; it gets an id if it has
        none.

    Raises
    ------
    ValueError
        If a given vocabulary lacks a word and there is no `unknown_token`.

    Examples
    --------
    >>> encode_sentences([["a", "b"], ["b"]])
    ([[0, 1], [1]], {'\n': -1, 'a': 0, 'b': 1})
    """
    is_new = vocab is None
    known: dict[Any, int] = {invalid_key: invalid_label} if vocab is None else dict(vocab)
    taken = {*known.values(), invalid_label}
    next_id = start_label

    def learn(word: Hashable) -> None:
        nonlocal next_id
        while next_id in taken:
            next_id += 1
        known[word] = next_id
        taken.add(next_id)

    encoded = []
    for sentence in sentences:
        ids = []
        for word in sentence:
            if word not in known and not is_new:
                if unknown_token is None:
                    raise ValueError(f"the vocabulary has no word {word!r}; unknown_token may")
                word = unknown_token
            if word not in known:
                learn(word)
            ids.append(known[word])
        encoded.append(ids)
    return encoded, known


def widths_of(
    sentences: Sequence[Sequence[int]], batch_size: int, buckets: Sequence[int] | None
) -> list[int]:
    """Return the widths of buckets, ascending: the given ones, or frequent lengths."""
    if buckets:
        for end in buckets:
            check_int("a bucket", end, 1, 2**31)
        return sorted({int(end) for end in buckets})
    counts = Counter(len(sentence) for sentence in sentences)
    ends = sorted(size for size, count in counts.items() if count >= batch_size and size)
    if not ends:
        raise ValueError(
            f"no length occurs {batch_size} times, the batch size, among {len(sentences)} "
            "sentences; give buckets"
        )
    return ends


def fill_buckets(
    sentences: Sequence[Sequence[int]], ends: list[int], pad: int, dtype: np.dtype[Any]
) -> tuple[dict[int, NDArray[Any]], dict[int, NDArray[np.int64]]]:
    """Return the padded sentences of every bucket that is not empty, by width, with numbers."""
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    bucket = np.where(lengths > 0, np.searchsorted(ends, lengths), len(ends))
    rows, numbers = {}, {}
    for number, end in enumerate(ends):
        members = np.flatnonzero(bucket == number)
        if not members.size:
            continue
        numbers[end] = members
        rows[end] = np.full((len(members), end), pad, dtype)
        for row, member in zip(rows[end], members.tolist(), strict=True):
            row[: lengths[member]] = sentences[member]
    if not rows:
        raise ValueError(
            f"none of {len(sentences)} sentences fits a bucket; the largest is {ends[-1]}"
        )
    return rows, numbers


def next_words(rows: NDArray[Any], pad: int) -> NDArray[Any]:
    """Return the next word at every place, and `pad` in the last column."""
    labels = np.full_like(rows, pad)
    labels[:, :-1] = rows[:, 1:]
    return labels
