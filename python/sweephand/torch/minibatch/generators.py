"""Generators of random numbers that maps draw from."""

from __future__ import annotations

from torch import Generator

__all__ = ["Generator", "generator_of"]


def generator_of(seed: int, device: str) -> Generator:
    """Return a generator with a seed, in [0, 2^63)."""
    return Generator(device).manual_seed(seed)
