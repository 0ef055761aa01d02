"""Combinations that are refused when the source is made, and the words that say why."""

from __future__ import annotations

from collections.abc import Iterator

from tests.combinations import rules, shares
from tests.combinations.combination import Combination

import sweephand as sh


def is_served(combination: Combination) -> bool:
    return not refusals_of(combination) and not _is_undecided(combination)


def refusals_of(combination: Combination) -> list[str]:
    """The words of each reason; none where all of it is served."""
    return [*_of_lengths(combination), *_of_features(combination), *_of_balance(combination)]


def _is_undecided(combination: Combination) -> bool:
    is_bare = _has_rows_of_one_sample(combination) and not rules.ONE_SAMPLE_ROWS_ARE_REFUSED
    return is_bare or any(not corpus.all for corpus in combination.made)


def _has_rows_of_one_sample(combination: Combination) -> bool:
    fills_rows = isinstance(combination.layout, sh.Packed | sh.TruncatedBPTT)
    return fills_rows and shares.has_one_sample_each(combination)


def _of_lengths(combination: Combination) -> Iterator[str]:
    layout = combination.layout
    if any(not corpus.all for corpus in combination.made[: len(combination.corpora)]):
        yield "nothing is left|keeps no sequence"
    longest = max((made.size for one in combination.made for made in one.all), default=0)
    if (
        isinstance(layout, sh.Packed)
        and layout.split_long == "error"
        and (longest > layout.row_length)
    ):
        yield "have more samples than a row"
    if _has_rows_of_one_sample(combination) and rules.ONE_SAMPLE_ROWS_ARE_REFUSED:
        yield "one sample"
    if combination.has_added and not shares.is_alike_when_added(combination):
        yield "all sequences of the mixture have one sample"


def _of_features(combination: Combination) -> Iterator[str]:
    layout = combination.layout
    if isinstance(layout, sh.Frames) and combination.maps_values:
        yield "frames are cut of what is stored, and these sequences are mapped"
    is_apart = isinstance(layout, sh.Packed) and layout.lanes == "apart"
    if is_apart and combination.is_mixture and combination.settings.randomize:
        yield "rows of a mixture are of all lanes: lanes='apart' is for one corpus"


def _of_balance(combination: Combination) -> Iterator[str]:
    layout = combination.layout
    if combination.balance is None:
        return
    if isinstance(layout, sh.TruncatedBPTT):
        yield "balance is for shares that may change: rows of TruncatedBPTT go on"
    if isinstance(layout, sh.Packed | sh.Bucketed):
        return
    if combination.settings.scores is not None:
        yield "sequences in an order by score are dealt in turn: no balance"
    if not combination.settings.randomize:
        yield "balance needs randomize=True"
