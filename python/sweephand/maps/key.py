"""Random keys of sequences: docs/order.md, section 9, defines them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.ids import encoded

if TYPE_CHECKING:
    from sweephand.torch.tensors import Generator


_OF_A_SWEEP, _OF_ALL_SWEEPS = 6, 7  # purposes: docs/order.md
_INTEGER, _UNIFORM, _NUMPY, _TORCH = range(4)  # the purpose of a drawn word


class Key:
    """Random key of one sequence for a map: the same whenever and wherever it is mapped.

    It depends on the seed of the source, the sweep, the id of the sequence, and the name and
    version of the map. Every method draws from the same start each time it is called.

    Attributes
    ----------
    sweep : int
        In which the sequence is delivered.
    sequence_id : str

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> def add_noise(sequence, key):
    ...     return {"x": sequence["x"] + key.numpy().integers(0, 10, len(sequence["x"]))}
    >>> corpus = sh.ArrayDeserializer({"x": np.zeros(3, np.int64)}).map(add_noise, random=True)
    >>> whole = sh.MinibatchSource(corpus, max_sweeps=1).next_minibatch(3)["x"].values
    >>> parts = sh.MinibatchSource(corpus, max_sweeps=1, num_map_workers=0).minibatches(1)
    >>> bool((np.concatenate([part["x"].values for part in parts]) == whole).all())
    True
    """

    __slots__ = ("_context", "_word", "sequence_id", "sweep")

    def __init__(self, context: KeyContext, sweep: int, sequence_id: str) -> None:
        self._context = context
        self._word: int | None = None  # made for the first draw
        self.sweep = sweep
        self.sequence_id = sequence_id

    def __repr__(self) -> str:
        return f"Key(sweep={self.sweep}, sequence_id={self.sequence_id!r})"

    def _draw(self, purpose: int, number: int = 0) -> int:
        if self._word is None:
            self._word = self._context.word(self.sweep, self.sequence_id)
        return _core.base.derive_key([self._word, purpose, number])

    def integer(self, n: int) -> int:
        """Return a number in ``[0, n)``; `n` is at most 2^64.

        Raises
        ------
        ValueError
            If `n` is outside [1, 2^64].
        """
        check_int("n", n, 1, 2**64 + 1)
        return self._draw(_INTEGER) * n >> 64

    def uniform(self) -> float:
        """Return a number in ``[0, 1)``, a multiple of 2^-53."""
        return (self._draw(_UNIFORM) >> 11) * 2.0**-53

    def numpy(self) -> np.random.Generator:
        """Return a generator of NumPy, which counts with Philox."""
        return generator_of([self._draw(_NUMPY, number) for number in range(2)])

    def torch(self, device: str = "cpu") -> Generator:
        """Return a generator of PyTorch.

        Raises
        ------
        ImportError
            Without PyTorch.
        """
        from sweephand.torch.tensors import generator_of

        return generator_of(self._draw(_TORCH) >> 1, device)

    @property
    def every_sweep(self) -> Key:
        """The key of the sequence that is the same in all sweeps, for ``size=``."""
        return Key(self._context.of_all_sweeps(), self.sweep, self.sequence_id)


@dataclass(frozen=True)
class KeyContext:
    """Common part of the keys of a map."""

    seed: int
    name: str
    version: int
    purpose: int = _OF_A_SWEEP

    def word(self, sweep: int, sequence_id: str) -> int:
        """Return the 64 bits that all draws of a key are derived from."""
        sweeps = [sweep] if self.purpose == _OF_A_SWEEP else []
        names = [_core.base.name_digest(encoded(one)) for one in (sequence_id, self.name)]
        return _core.base.derive_key(
            [1, self.seed, self.purpose, *sweeps, *names, self.version]
        )

    def of_all_sweeps(self) -> KeyContext:
        """Return the context of keys that are the same in all sweeps."""
        return replace(self, purpose=_OF_ALL_SWEEPS)


class PhiloxKey(ISeedSequence):
    """The key of a Philox, as its seed: given ``key=``, NumPy also asks the system for bits."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(
        self, n_words: int, dtype: DTypeLike = np.uint32
    ) -> NDArray[np.uint32 | np.uint64]:
        """Return the key, of which a Philox asks for two words of uint64."""
        assert (n_words, dtype) == (len(self._words), self._words.dtype)
        return self._words


def generator_of(words: Sequence[int]) -> np.random.Generator:
    """Return ``Generator(Philox(key=words))``, three times as fast."""
    key: Any = PhiloxKey(np.array(words, np.uint64))  # a seed, which its stubs do not know
    return np.random.Generator(np.random.Philox(key))
