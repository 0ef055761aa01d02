"""Minibatches as pages read them."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, ValuesView
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from sweephand import Layout, MinibatchData
    from sweephand.extend import _core


class ViewedMinibatch(Protocol):
    """The part of `Minibatch` that pages show, which gives itself to its page."""

    def __getitem__(self, key: Any, /) -> MinibatchData: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __bool__(self) -> bool: ...
    def items(self) -> ItemsView[Any, MinibatchData]:
        """Streams by key."""

    def values(self) -> ValuesView[MinibatchData]:
        """Streams."""

    @property
    def layout(self) -> Layout:
        """Layout of the minibatch."""

    @property
    def planned(self) -> _core.compose.Plan | _core.engine.Batch:
        """The plan as the core has it."""

    @property
    def nominal_time(self) -> int:
        """Time at which the minibatch begins, in samples."""

    @property
    def end_of_sweep(self) -> bool:
        """True if a sweep ends in it."""

    @property
    def num_samples(self) -> int:
        """Samples of the share."""

    @property
    def global_num_samples(self) -> int:
        """Samples of all workers."""

    @property
    def num_sequences(self) -> int:
        """Sequences of the share."""

    @property
    def num_rows(self) -> int:
        """Rows of the share; sequences where the layout has none."""

    @property
    def bucket_key(self) -> int | None:
        """Width of the bucket, if there are buckets."""

    @property
    def fill_ratio(self) -> float:
        """Samples over cells."""

    @property
    def ids(self) -> list[str]:
        """Ids of the sequences."""

    @property
    def banned_ids(self) -> list[str]:
        """Ids of the sequences that events leave out."""

    @property
    def corpora(self) -> list[str]:
        """The corpus, or file, of each sequence."""

    def num_samples_by(self) -> dict[str, int]:
        """Return the samples of each corpus, or file."""

    def rows(self, begin: int, end: int) -> Self:
        """Return a range of the rows, over the same memory."""
