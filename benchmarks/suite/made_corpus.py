"""A corpus of any size with few distinct lengths, for the planner alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand import _core

_TILE = 1 << 21  # lengths that are drawn, at most
_DRAWN_CHUNKS = 64

# Median and sigma of a log-normal, and the longest: in tokens, as such corpora have them.
_SHAPES = {
    "web": (600, 1.2, 2**15),
    "code": (900, 1.5, 2**16),
    "chat": (250, 0.8, 2**13),
    "long": (600, 1.1, 2**13),
}
KINDS = tuple(_SHAPES)
_LONG_SHARE, _LONGEST = 0.03, 2**17


def draw_lengths(kind: str, count: int, seed: int) -> NDArray[np.uint32]:
    """Return lengths as corpora of a kind have them: "web", "code", "chat" or "long".

    "long" is like the web, with 3 in 100 between 8 k and 128 k.
    """
    rng = np.random.default_rng(seed)
    median, sigma, longest = _SHAPES[kind]
    lengths = rng.lognormal(np.log(median), sigma, count)
    lengths = np.clip(np.rint(lengths), 1, longest)
    if kind == "long":
        tail = np.exp(rng.uniform(np.log(longest), np.log(_LONGEST), count))
        lengths = np.where(rng.random(count) < _LONG_SHARE, tail, lengths)
    return lengths.astype(np.uint32)


@dataclass(frozen=True)
class MadeCorpus:
    """Chunks of equally many sequences; their lengths come again and again.

    Attributes
    ----------
    tile : ndarray of uint32
        Lengths of some whole chunks; that of sequence n is entry n, modulo how many there are.
    chunk_sequences : int
        Sequences of every chunk.
    chunk_samples : ndarray of uint64, shape (chunks,)
    num_sequences : int
    """

    tile: NDArray[np.uint32]
    chunk_sequences: int
    chunk_samples: NDArray[np.uint64]
    num_sequences: int

    @classmethod
    def of(cls, lengths: NDArray[np.uint32], num_samples: int, num_chunks: int) -> MadeCorpus:
        """Return a corpus of about `num_samples` samples in `num_chunks` chunks."""
        sequences = max(1, round(num_samples / num_chunks / float(lengths.mean())))
        tiles = max(1, min(len(lengths) // sequences, num_chunks))
        tile = np.resize(lengths, tiles * sequences)
        sums = tile.reshape(tiles, sequences).sum(axis=1, dtype=np.uint64)
        return cls(tile, sequences, np.resize(sums, num_chunks), sequences * num_chunks)

    @classmethod
    def draw(cls, kind: str, num_samples: int, num_chunks: int, seed: int) -> MadeCorpus:
        """Return a corpus of a kind."""
        mean = float(draw_lengths(kind, 1 << 16, seed).mean())
        in_chunk = max(1, round(num_samples / num_chunks / mean))
        wanted = min(max(_TILE, in_chunk), _DRAWN_CHUNKS * in_chunk)
        return cls.of(draw_lengths(kind, wanted, seed), num_samples, num_chunks)

    @property
    def num_samples(self) -> int:
        """Samples of a sweep."""
        return int(self.chunk_samples.sum())

    def core(self) -> _core.index.Corpus:
        """Return it as the planner takes it."""
        counts = np.full(len(self.chunk_samples), self.chunk_sequences, np.uint64)

        def read(firsts: NDArray[np.uint64], counts: NDArray[np.uint64]) -> NDArray[np.uint32]:
            runs = zip(firsts.tolist(), counts.tolist(), strict=True)
            places = [np.arange(first, first + count) for first, count in runs]
            return self.tile.take(np.concatenate(places), mode="wrap")

        return _core.index.Corpus(counts, self.chunk_samples, _core.index.CallbackSizes(read))
