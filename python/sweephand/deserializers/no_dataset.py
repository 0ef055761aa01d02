"""The refusal to be used as a data set of items, with what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

_SOURCE = "make a source, source = sh.MinibatchSource(corpus), and"


class NoDataset:
    """Object that has no items by number: it is given to a source."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise TypeError(
            f"a corpus is not iterated over by itself: {_SOURCE} write `for minibatch in "
            "source.sweep(size)`"
        )

    def __bool__(self) -> bool:
        return True

    if not TYPE_CHECKING:  # type checkers and editors know that there are none

        def __len__(self) -> int:
            raise TypeError(
                f"a corpus has no len(): {_SOURCE} it has source.num_sequences_per_sweep "
                "sequences of source.num_samples_per_sweep samples"
            )

        def __getitem__(self, number: object) -> NoReturn:
            raise TypeError(
                "a corpus has no items by number: source = sh.MinibatchSource(corpus, "
                "randomize=False) gives them in their order, source.next_minibatch(1) the next"
            )

        def __add__(self, other: object) -> NoReturn:
            raise TypeError(
                "corpora are not added: files of one kind are sh.open([a, b]), others "
                "sh.Mixture({'a': a, 'b': b}, weights={'a': 1, 'b': 1}), and streams of the "
                "same sequences sh.MinibatchSource([a, b])"
            )
