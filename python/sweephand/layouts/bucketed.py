"""Minibatches of sequences that have about the same length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_choice, check_int
from sweephand.layouts.base import GapLayout, LengthLimit, PadValue

DEFAULT_NUM_BUCKETS = 16
MOST_BUCKETS = 64


@dataclass(frozen=True)
class Bucketed(GapLayout):
    """Minibatches of one bucket each, padded to its boundary.

    A length equal to a boundary belongs to it. A minibatch of m samples holds
    ``max(1, m // boundary)`` sequences. Every sequence is served once per sweep; a minibatch is
    smaller only where its bucket runs out, at the end of a sweep, or of a part of a long one.
    The next bucket is drawn so that the time of a sequence does not depend on its length; in a
    mixture it is the one whose minibatch is complete first (``docs/layouts.md``). Which
    sequences share a minibatch depends on m.

    Parameters
    ----------
    boundaries : sequence of int, or "auto"
        Ascending, at most 64; ``"auto"`` chooses those that need the fewest padded cells.
    num_buckets : int, optional
        Of ``"auto"``: 16 by default.
    drop_long : bool
        Leave out sequences longer than the last boundary, and count them in ``stats()``; by
        default they are refused when the source is made.
    pad_value : number, or dict of numbers
        Value of the gaps; a dict has it per stream.
    side : {"right", "left"}
        The side of the padding.
    num_sequences : int, optional
        Sequences of a minibatch, instead of its size in samples.
    micro_batch_cells : int, optional
        The most cells of a micro-batch of `plan_lengths`; a source has none.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(n) for n in (3, 9, 4, 7)]})
    >>> source = sh.MinibatchSource(corpus, layout=sh.Bucketed([4, 16]), max_sweeps=1)
    >>> shapes = [(m.bucket_key, m["tokens"].asarray().shape) for m in source.minibatches(32)]
    >>> sorted(shapes)
    [(4, (2, 4)), (16, (2, 16))]
    """

    boundaries: Sequence[int] | Literal["auto"]
    num_buckets: int | None = None
    drop_long: bool = False
    pad_value: PadValue = 0
    side: Literal["right", "left"] = "right"
    num_sequences: int | None = None
    micro_batch_cells: int | None = None

    form: ClassVar[_core.engine.Form] = _core.engine.Form.PADDED
    is_bucketed: ClassVar[bool] = True
    depends_on_size: ClassVar[bool] = True

    @classmethod
    def of_length(cls, length: int | None, size: int) -> Bucketed:
        return cls("auto", num_buckets=length or DEFAULT_NUM_BUCKETS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("side", self.side, "right", "left")
        for name in ("num_sequences", "micro_batch_cells"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1, 2**31)
        if self.num_buckets is not None:
            check_int("num_buckets", self.num_buckets, 1, MOST_BUCKETS + 1)
        if isinstance(self.boundaries, str):
            if self.boundaries != "auto":
                raise ValueError(
                    f"boundaries must be integers or 'auto', got {self.boundaries!r}"
                )
            return
        if self.num_buckets is not None:
            raise ValueError("num_buckets goes with boundaries='auto'")
        for boundary in self.boundaries:
            check_int("a boundary", boundary, 1, 2**31)
        boundaries = tuple(int(boundary) for boundary in self.boundaries)
        is_ascending = list(boundaries) == sorted(set(boundaries))
        if not (is_ascending and 1 <= len(boundaries) <= MOST_BUCKETS):
            raise ValueError(
                f"boundaries are 1 to {MOST_BUCKETS} integers that ascend, each once, got "
                f"{boundaries}"
            )
        object.__setattr__(self, "boundaries", boundaries)

    @property
    def length_limit(self) -> LengthLimit | None:
        if self.boundaries == "auto":
            return None
        return LengthLimit(
            self.boundaries[-1],
            f"the last boundary, {self.boundaries[-1]}",
            "drop" if self.drop_long else "error",
            "give a larger boundary, or drop_long=True",
        )

    @property
    def default_bucket_key(self) -> int:
        """The largest boundary, which needs most memory: allocate it first.

        ValueError if boundaries are ``"auto"``; ``source.layout`` has them chosen.
        """
        if self.boundaries == "auto":
            raise ValueError("boundaries are chosen when a source is made: see source.layout")
        return int(self.boundaries[-1])

    def settle(
        self, corpus: _core.index.Corpus, counts: Mapping[str, NDArray[np.uint32]]
    ) -> Self:
        if self.boundaries != "auto":
            return self
        num_buckets = self.num_buckets or DEFAULT_NUM_BUCKETS
        boundaries = _core.compose.best_boundaries(
            _core.compose.count_sizes(corpus), num_buckets
        )
        return replace(self, boundaries=boundaries, num_buckets=None)

    @property
    def assemble_options(self) -> _core.engine.AssembleOptions:
        return _core.engine.AssembleOptions(self.form, self.side == "left", 1, False)

    @property
    def planner_choices(self) -> _core.compose.Bucketing:
        boundaries = [int(boundary) for boundary in self.boundaries]
        return _core.compose.Bucketing(boundaries, self.num_sequences or 0)

    def num_cells(self, minibatch_size_in_samples: int, some_sizes: object) -> int:
        return max(minibatch_size_in_samples, self.default_bucket_key)
