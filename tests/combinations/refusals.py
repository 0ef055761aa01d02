"""Combinations that are refused when the source is made, and the words that say why."""

from __future__ import annotations

from collections.abc import Iterator

from tests.combinations import shares
from tests.combinations.combination import Combination

import sweephand as sh


def is_served(combination: Combination) -> bool:
    return not refusals_of(combination)


def refusals_of(combination: Combination) -> list[str]:
    """The words of each reason; none where all of it is served."""
    return [*_of_lengths(combination), *_of_features(combination), *_of_balance(combination)]


def _has_rows_of_one_sample(combination: Combination) -> bool:
    if not isinstance(combination.layout, sh.Packed | sh.TruncatedBPTT):
        return False
    return any(all(made.size == 1 for made in one.all) for one in combination.made)


def _carries_too_much(combination: Combination) -> bool:
    most = combination.most_items
    if most is None or combination.over_limit != "error":
        return False
    return any(
        combination.num_items(corpus, made) > most
        for corpus, one in enumerate(combination.made)
        for made in one.all
    )


def _of_lengths(combination: Combination) -> Iterator[str]:
    layout = combination.layout
    if any(not corpus.all for corpus in combination.made):
        yield "nothing is left|keeps no sequence"
    longest = max((made.size for one in combination.made for made in one.all), default=0)
    if (
        isinstance(layout, sh.Packed)
        and layout.split_long == "error"
        and (longest > layout.row_length)
    ):
        yield "have more samples than a row"
    if _carries_too_much(combination):
        yield "carry more than the limit"
    if _has_rows_of_one_sample(combination):
        yield "have one sample each"


def _of_features(combination: Combination) -> Iterator[str]:
    layout = combination.layout
    if combination.weights and shares.has_one_sample_each(combination):
        yield "label weights are of next tokens"
    if combination.has_parts and layout.may_cut:
        yield "sequences with parts are whole, and this layout cuts them"
    if isinstance(layout, sh.Frames) and combination.carries:
        yield "is carried beside whole sequences"
    if isinstance(layout, sh.Frames) and combination.maps_values:
        yield "frames are cut of what is stored, and these sequences are mapped"


def _of_balance(combination: Combination) -> Iterator[str]:
    layout = combination.layout
    if combination.balance is None:
        return
    if isinstance(layout, sh.TruncatedBPTT):
        yield "balance is for shares that may change: rows of TruncatedBPTT go on"
    if isinstance(layout, sh.Packed | sh.Bucketed):
        return
    if not combination.settings.randomize:
        yield "balance needs randomize=True"
