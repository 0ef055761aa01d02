"""Maps and filters that combinations draw, by name: of a module, so that processes find them.

The stream "x" counts samples, "label" has the number of a sequence. Each function has its twin
in `tests.combinations.made`, which says from lengths, ids and keys what it makes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import sweephand as sh

Sequence = dict[str, Any]
STEP = 10**9  # what is drawn counts in these, beyond what "x" counts


def negate(sequence: Sequence) -> Sequence:
    return {**sequence, "x": -1 - sequence["x"]}


def shift(sequence: Sequence, key: sh.Key) -> Sequence:
    return {**sequence, "x": sequence["x"] + STEP * key.integer(1000)}


def shift_always(sequence: Sequence, key: sh.Key) -> Sequence:
    return {**sequence, "x": sequence["x"] + STEP * key.every_sweep.integer(1000)}


def shift_many(sequences: dict[str, list[Any]], keys: list[sh.Key]) -> dict[str, list[Any]]:
    moved = [x + STEP * key.integer(1000) for x, key in zip(sequences["x"], keys, strict=True)]
    return {**sequences, "x": moved}


def versioned(sequence: Sequence, key: sh.Key) -> Sequence:
    return {**sequence, "x": sequence["x"] + STEP * key.integer(7)}


def versioned_later(sequence: Sequence, key: sh.Key) -> Sequence:
    return {**sequence, "x": sequence["x"] - STEP * key.integer(1000)}


def double(sequence: Sequence) -> Sequence:
    return {**sequence, "x": np.repeat(sequence["x"], 2)}


def double_size(sizes: dict[str, int], key: sh.Key) -> int:
    return 2 * sizes["x"]


def crop(sequence: Sequence, key: sh.Key) -> Sequence:
    size = crop_size({"x": len(sequence["x"])}, key.every_sweep)
    begin = key.integer(len(sequence["x"]) - size + 1)
    return {**sequence, "x": sequence["x"][begin : begin + size]}


def crop_size(sizes: dict[str, int], key: sh.Key) -> int:
    return 1 + key.integer(sizes["x"])


def behead(sequence: Sequence) -> Sequence:
    """Leave out the first sample, and so sequences of one; the first one keeps all."""
    return {**sequence, "x": sequence["x"][int(sequence["label"][0] > 0) :]}


def is_kept(sequence: Sequence) -> bool:
    """Keep two of three; frames have no label, but "x" as it is stored."""
    x = sequence["x"]
    number = sequence["label"][0] if "label" in sequence else x[0] // 1000 % 1000
    return int(number) % 3 != 1


def halve(sequence: Sequence) -> list[Sequence]:
    """Make two of a sequence, one of a short one, and none of some."""
    if int(sequence["label"][0]) % 5 == 4:
        return []
    return [{**sequence, "x": x} for x in np.array_split(sequence["x"], 2) if len(x)]


def apply(name: str, corpus: Any) -> Any:
    """Return a corpus, or a mixture, with the map of a name."""
    options: dict[str, dict[str, Any]] = {
        "negate": {},
        "shift": {"random": True},
        "shift_always": {"random": True},
        "shift_many": {"random": True, "batched": True},
        "versioned": {"random": True, "versions": {2: versioned_later}},
        "double": {"size": double_size},
        "crop": {"random": True, "size": crop_size},
        "behead": {"size": "measured"},
        "halve": {"size": "measured"},
    }
    if name == "is_kept":
        return corpus.filter(is_kept)
    return corpus.map(globals()[name], **options[name])


SAME_SIZE = ("negate", "shift", "shift_always", "shift_many", "versioned")
OTHER_SIZE = ("double", "crop", "behead", "is_kept", "halve")
