"""Functions that tests map: of a module, so that worker processes find them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import sweephand as sh

Sequence = dict[str, Any]


def stamp(sequence: Sequence, key: sh.Key) -> Sequence:
    """Add to every sample what the key draws, and tell the sweep."""
    noise = key.numpy().integers(0, 1 << 20, len(sequence["x"]))
    return {
        **sequence,
        "x": sequence["x"] + (noise << 20),
        "word": np.array([key.integer(2**64)], np.uint64),
        "sweep": np.array([key.sweep]),
    }


def stamp_batch(sequences: dict[str, list[Any]], keys: list[sh.Key]) -> dict[str, list[Any]]:
    names = list(sequences)
    singles = [
        stamp({name: sequences[name][i] for name in names}, key) for i, key in enumerate(keys)
    ]
    return {name: [one[name] for one in singles] for name in singles[0]}


def negate(sequence: Sequence) -> Sequence:
    return {**sequence, "x": -sequence["x"]}


def flip(sequence: Sequence, key: sh.Key) -> Sequence:
    return {**sequence, "x": sequence["x"][::-1] if key.integer(2) else sequence["x"]}


def crop(sequence: Sequence, key: sh.Key) -> Sequence:
    length = crop_size({"x": len(sequence["x"])}, key.every_sweep)
    begin = key.integer(len(sequence["x"]) - length + 1)
    return {**sequence, "x": sequence["x"][begin : begin + length]}


def crop_size(sizes: dict[str, int], key: sh.Key) -> int:
    return 1 + key.integer(sizes["x"])


def twice(sequence: Sequence) -> Sequence:
    return {"x": np.repeat(sequence["x"], 2)}


def is_odd(sequence: Sequence) -> bool:
    return bool(len(sequence["x"]) % 2)


def halves(sequence: Sequence) -> list[Sequence]:
    """Return one or two parts, and none of a sequence of three."""
    x = sequence["x"]
    if len(x) == 3:
        return []
    return [{"x": part} for part in np.array_split(x, 2) if len(part)]


def fails_at_47(sequence: Sequence) -> Sequence:
    if 47 in sequence["x"]:
        raise RuntimeError("47 is not wanted")
    return sequence


def die_at_80(sequence: Sequence) -> Sequence:
    if 80 in sequence["x"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return sequence


def die_in_a_batch(sequences: dict[str, list[Any]]) -> dict[str, list[Any]]:
    for x in sequences["x"]:
        die_at_80({"x": x})
    return sequences


def die(sequence: Sequence) -> Sequence:
    os.kill(os.getpid(), signal.SIGKILL)
    return sequence


def sleep_at_80(sequence: Sequence) -> Sequence:
    if 80 in sequence["x"]:
        time.sleep(3600)
    return sequence


def exit_at_80(sequence: Sequence) -> Sequence:
    if 80 in sequence["x"]:
        os._exit(3)
    return sequence


def ask_to_exit_at_80(sequence: Sequence) -> Sequence:
    if 80 in sequence["x"]:
        sys.exit("enough")
    return sequence


def wander(sequence: Sequence) -> Sequence:
    """Do what disturbs a process, but not what it is asked for."""
    if 80 not in sequence["x"]:
        return {"x": -sequence["x"]}
    print("noise")
    threading.Thread(target=time.sleep, args=[0.01]).start()
    child = os.fork()
    if not child:
        return sequence  # and does not end by itself
    os.waitpid(child, 0)
    return {"x": -sequence["x"]}


class LoadedOnce:
    """Negates; the first process that loads it never ends doing so, or none does."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        if self.path is None or not self.path.exists():
            if self.path is not None:
                self.path.touch()
            time.sleep(3600)

    def __call__(self, sequence: Sequence) -> Sequence:
        return negate(sequence)
