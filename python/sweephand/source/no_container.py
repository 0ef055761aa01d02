"""The protocols of containers, which a source refuses with what to write."""

from __future__ import annotations

from typing import NoReturn

from sweephand.source.loops import FOR_TORCH, WRITE_LOOP


class NoContainer:
    """Object that is neither iterated over by itself nor has a length."""

    def __iter__(self) -> NoReturn:
        raise TypeError(f"a source is not iterated over by itself: {WRITE_LOOP}; {FOR_TORCH}")

    def __next__(self) -> NoReturn:
        raise TypeError(
            "next(source): write source.next_minibatch(size), or next(iter(source.sweep(size)))"
        )

    def __len__(self) -> int:
        raise TypeError(
            "a source has no len(): it has source.num_sequences_per_sweep sequences of "
            "source.num_samples_per_sweep samples, and len(source.sweep(size)) minibatches; "
            f"{FOR_TORCH}"
        )
