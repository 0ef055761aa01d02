"""The search for the sequences that spike alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

ALONE = 0.5  # of the threshold: one of several that spike together is beyond it


class TrialResult(NamedTuple):
    """Result of a trial minibatch."""

    z_score: float  # the highest one; infinite if training failed
    # its sum, NaN if it does not say all: then that of the rest does not follow from it
    loss: float = math.nan
    num_samples: int = 0  # its label samples
    is_trained: bool = True  # true if it was trained; else it follows from others

    def without(self, part: TrialResult) -> tuple[float, int]:
        """Return the loss sum and label samples of the rest."""
        return self.loss - part.loss, self.num_samples - part.num_samples


def find_spiking(
    ids: Sequence[str],
    whole: TrialResult,
    look: Callable[[Sequence[str]], TrialResult],
    score: Callable[[float, int], float],
    threshold: float,
) -> list[str]:
    """Return the sequences of a minibatch that spike alone, or none if the rest spikes too.

    One after the other is found by halving what is left: log2 n looks lead to the worst
    sequence, one more may be needed to see it alone, and one shows what the rest does. If there
    are several, each is put back in once. `look` trains some of the sequences without trace,
    `score` returns the z-score of a loss sum over label samples.
    """
    rest = list(ids)
    found: list[str] = []
    while whole.z_score > threshold:
        worst = None
        if len(found) <= len(ids) // 2:
            worst = _worst(rest, whole, look, score, ALONE * threshold)
        if worst is None:
            return []
        found.append(worst)
        rest.remove(worst)
        whole = look(rest) if rest else TrialResult(-math.inf)
    if len(found) > 1:
        for one in list(found):  # it may spike alone, and yet not in a group
            if look([*rest, one]).z_score <= threshold:
                found.remove(one)
                rest.append(one)
    return found


def _worst(
    ids: Sequence[str],
    whole: TrialResult,
    look: Callable[[Sequence[str]], TrialResult],
    score: Callable[[float, int], float],
    threshold: float,
) -> str | None:
    """Return the sequence that is worst, or None if alone it is not beyond the threshold."""
    seen: TrialResult | None = whole  # of the ids; None if nothing is known
    while len(ids) > 1:
        half = len(ids) // 2
        left = look(ids[:half])
        right = _rest(seen, left, score)
        if left.z_score > (threshold if right is None else right.z_score):
            ids, seen = ids[:half], left
        else:
            ids, seen = ids[half:], right
    if seen is None or not seen.is_trained:
        seen = look(ids)
    return ids[0] if seen.z_score > threshold else None


def _rest(
    whole: TrialResult | None, part: TrialResult, score: Callable[[float, int], float]
) -> TrialResult | None:
    """Return the result for the rest, if it follows from the sums."""
    if whole is None or not math.isfinite(part.loss):
        return None
    loss, num_samples = whole.without(part)
    if math.isnan(loss):
        return None
    z_score = score(loss, num_samples) if num_samples else -math.inf
    return TrialResult(z_score, loss, num_samples, is_trained=False)
