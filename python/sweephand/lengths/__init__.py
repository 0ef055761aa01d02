"""Plans of lengths in hand: which worker gets which sequence, in which micro-batch and row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand import _core
from sweephand.base.checks import check_choice, check_int
from sweephand.corpus.columns import runs
from sweephand.errors import shown
from sweephand.layouts import Bucketed, Packed, Padded
from sweephand.layouts.attention import Balance, cost_of, costs_of_items
from sweephand.layouts.base import LengthLimit
from sweephand.lengths.lengths_plan import LengthsLayout, LengthsPlan, corpus_of

_U32 = NDArray[np.uint32]


def _none() -> _U32:
    return np.empty(0, np.uint32)


@dataclass(frozen=True)
class _Pieces:
    """Pieces of the sequences that have a place, in the order of arrival."""

    sequences: _U32
    firsts: _U32
    sizes: _U32
    cells: _U32  # of a padded layout the width that they need
    marks: _U32 = field(default_factory=_none)  # bits of aligned items
    groups: _U32 = field(default_factory=_none)
    loads: tuple[tuple[_U32, int], ...] = ()  # limited items, and the most

    def take(self, chosen: NDArray[Any]) -> _Pieces:
        """Return some of them."""
        some = {
            name: own[chosen]
            for name, own in vars(self).items()
            if name != "loads" and len(own)
        }
        return replace(
            self, **some, loads=tuple((own[chosen], most) for own, most in self.loads)
        )


def plan_lengths(
    lengths: ArrayLike | Mapping[str, ArrayLike],
    layout: LengthsLayout,
    *,
    num_data_partitions: int = 1,
    balance: Balance = None,
    size: str | None = None,
    groups: ArrayLike | None = None,
    groups_together: Literal["worker", "row"] = "worker",
    num_steps: int = 1,
    micro_batch_multiple: int = 1,
    multiple_of: int = 1,
    max_sequences: int | None = None,
    aligned: Sequence[str] = (),
    order: Literal["longest", "given"] = "longest",
    leftovers: Literal["fill", "carry"] = "fill",
    num_labels: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
) -> LengthsPlan:
    """Plan sequences from their lengths alone, by the planner of sources.

    The plan is a function of the arguments: workers that call it with the same ones agree
    without a message.

    Parameters
    ----------
    lengths : ints of shape (n,), or dict of them
        Samples of each sequence, and in a dict items of carried streams beside them.
    layout : Packed, Padded or Bucketed
        Rows and micro-batches, limits, and the treatment of what is beyond them. A micro-batch
        has ``micro_batch_rows`` packed rows, by default one, or at most ``micro_batch_cells``.
    num_data_partitions : int
        Workers, with equally many micro-batches, and a sequence each if there are enough.
    balance : {"samples", "attention"}, Attention or None
        The cost that workers and micro-batches are balanced by; the costliest micro-batch
        comes first. None deals row j to worker j mod K, and keeps the order.
    size : str, optional
        The entry of a dict that rows are filled by; the first by default.
    groups : ints of shape (n,), optional
        Sequences of equal numbers, such as rollouts of one prompt, stay together.
    groups_together : {"worker", "row"}
        Where they do. Groups at one worker are dealt by cost, of samples without a balance.
    num_steps : int
        Optimizer steps with equally many micro-batches, to which groups, or sequences, are
        dealt whole, those with most labels first.
    micro_batch_multiple : int
        The number of micro-batches is a multiple of it.
    multiple_of : int
        Segments begin at multiples of it inside their packed row.
    max_sequences : int, optional
        The most segments of a packed row.
    aligned : sequence of str
        Entries of a dict. A micro-batch has such items at all workers or at none, as far as
        there are enough; where not, ``unaligned`` names it.
    order : {"longest", "given"}
        Rows are opened by the longest sequence, or by the first of those in sight.
    leftovers : {"fill", "carry"}
        Fill up with empty rows, or leave the sequences of the emptiest rows to ``rest``.
    num_labels : ints of shape (n,), optional
        Labels of each sequence; by default each sample but the first is one.
    label_weight : floats of shape (n,), optional
        Summed weights of the labels of each sequence; by default one each.

    Raises
    ------
    ValueError
        If a length is 0, a sequence is too long for the layout, or arguments contradict each
        other: naming the index.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> plan = sh.plan_lengths([3, 5, 2, 6], sh.Packed(8), num_data_partitions=2)
    >>> plan.num_micro_batches, plan.sequence.tolist(), plan.worker.tolist()
    (1, [2, 3, 0, 1], [0, 0, 1, 1])
    >>> rollouts = [np.arange(n) for n in (3, 5, 2, 6)]
    >>> (minibatch,) = plan.minibatches({"tokens": rollouts}, partition_index=1)
    >>> minibatch.indices, minibatch["tokens"].asarray()
    (array([0, 1]), array([[0, 1, 2, 0, 1, 2, 3, 4]]))
    """
    for name, number in (
        ("num_data_partitions", num_data_partitions),
        ("num_steps", num_steps),
        ("micro_batch_multiple", micro_batch_multiple),
        ("multiple_of", multiple_of),
        ("max_sequences", max_sequences or 1),
    ):
        check_int(name, number, 1, 2**31)
    check_choice("groups_together", groups_together, "worker", "row")
    check_choice("order", order, "longest", "given")
    check_choice("leftovers", leftovers, "fill", "carry")
    is_packed = isinstance(layout, Packed)
    in_row = groups is not None and groups_together == "row"
    if not is_packed and (in_row or multiple_of != 1 or max_sequences is not None):
        raise ValueError(
            "groups_together='row', multiple_of and max_sequences are for sh.Packed(...): rows "
            f"of {layout!r} have one sequence"
        )
    if leftovers == "carry" and (aligned or (groups is not None and not in_row)):
        raise ValueError(
            "leftovers='carry' leaves rows over, and may leave a part of a group, or items of "
            "one worker: take groups_together='row' and no aligned=, or leftovers='fill'"
        )
    given = lengths if isinstance(lengths, Mapping) else {"lengths": lengths}
    chosen = next(iter(given), "lengths") if size is None else size
    for name in (chosen, *aligned, *(layout.limits or {}), *costs_of_items(balance)):
        if name not in given:
            raise ValueError(f"{name!r} is none of the lengths: {', '.join(given)}")
    sizes = _per_sequence(chosen, given[chosen], "iu", 1, 2**32 - 1).astype(np.uint32)
    checked = partial(_per_sequence, wanted=len(sizes))
    counts = {
        name: checked(name, own, "iu", 0, 2**32 - 1).astype(np.uint32)
        for name, own in given.items()
    }
    labels = weights = None
    if num_labels is not None:
        labels = checked("num_labels", num_labels, "iu", 0, 2**63 - 1).astype(np.int64)
    if label_weight is not None:
        most_weight = float(np.finfo(np.float64).max)
        weights = checked("label_weight", label_weight, "iuf", -most_weight, most_weight)
    group_of = np.empty(0, np.uint32)
    if groups is not None:
        checked("groups", groups, "iu", -(2**63), 2**64)
        group_of = np.unique(groups, return_inverse=True)[1].astype(np.uint32)
    layout, rule, limit = _rule_of(layout, sizes, multiple_of, order == "given")
    left_out: dict[int, str] = {}
    pieces = _cut(limit, sizes, left_out)
    pieces = replace(pieces, cells=_cells_of(layout, pieces.sizes, multiple_of))
    if len(group_of):
        pieces = replace(pieces, groups=group_of[pieces.sequences])
    for bit, name in enumerate(aligned):
        has = (pieces.firsts == 0) & (counts[name][pieces.sequences] > 0)
        known = pieces.marks if bit else np.uint32(0)
        pieces = replace(pieces, marks=known | (has.astype(np.uint32) << np.uint32(bit)))
    for name, most in (layout.limits or {}).items():
        pieces = _loaded(layout, pieces, name, counts[name], most, left_out)
    if max_sequences is not None:
        ones = np.ones(len(pieces.sequences), np.uint32)
        pieces = replace(pieces, loads=(*pieces.loads, (ones, max_sequences)))
    if in_row:
        pieces = _without_large_groups(layout, pieces, limit.longest, left_out)
    if leftovers == "carry" and pieces.firsts.any():
        at = int(pieces.sequences[pieces.firsts.argmax()])
        raise ValueError(f"sequence {at} is split, and leftovers='carry' may part it")
    items = {name: _core.index.StoredSizes(counts[name]) for name in costs_of_items(balance)}
    cost = cost_of(balance, items)
    rows = layout.micro_batch_rows or 1
    at_once = num_data_partitions * rows * micro_batch_multiple

    def rows_of(step: NDArray[np.int64], most_rows: int) -> _core.compose.WorkerRows:
        own = pieces.take(step)
        return _core.compose.WorkerRows(
            own.sequences,
            own.firsts,
            own.sizes,
            own.cells,
            own.marks,
            own.groups,
            in_row,
            rule,
            [counts for counts, _ in own.loads],
            [most for _, most in own.loads],
            _core.compose.DealRule(
                num_data_partitions,
                rows,
                cost,
                at_once if leftovers == "carry" else 0,
                most_rows,
            ),
        )

    steps = _deal_steps(pieces, labels, num_steps)
    made = [rows_of(step, 2**63) for step in steps]
    needed = [one.num_micro_batches for one in made]
    count = min(needed)
    if leftovers == "fill":
        count = -(-max(needed) // micro_batch_multiple) * micro_batch_multiple
    elif max(needed) > count:
        made = [rows_of(step, count * num_data_partitions * rows) for step in steps]
    laid = [one.lay(count) for one in made]
    left = [step[one.left] for step, one in zip(steps, made, strict=True)]
    placed = [step[one.pieces] for step, one in zip(steps, laid, strict=True)]
    num_pieces = np.concatenate([np.diff(one.ends, prepend=0) for one in laid]).astype(int)
    loads = [one.loads.reshape(num_data_partitions, -1) for one in laid]
    return LengthsPlan(
        layout=layout,
        num_data_partitions=num_data_partitions,
        num_steps=num_steps,
        num_micro_batches=count,
        multiple_of=multiple_of,
        left_out=dict(sorted(left_out.items())),
        rest=np.unique(pieces.sequences[np.concatenate(left)]).astype(np.int64),
        loads=np.concatenate(loads, axis=1),
        **_columns(
            layout, pieces.take(np.concatenate(placed)), num_pieces, num_data_partitions, count
        ),
        _sizes=sizes,
        _aligned={name: counts[name] for name in aligned},
        _num_labels=labels,
        _label_weight=weights,
    )


def _columns(
    layout: LengthsLayout,
    placed: _Pieces,
    num_pieces: NDArray[np.int64],
    num_workers: int,
    num_micro_batches: int,
) -> dict[str, NDArray[np.int64]]:
    """Return the arrays of a plan, of placed pieces and their number in each slot."""
    sequence, start, length, cells = (
        own.astype(np.int64)
        for own in (placed.sequences, placed.firsts, placed.sizes, placed.cells)
    )
    slot = np.repeat(np.arange(len(num_pieces)), num_pieces)
    slots, micro_batches = layout.micro_batch_rows or 1, max(1, num_micro_batches)
    if isinstance(layout, Packed):
        rows, widths = np.ones_like(num_pieces), np.full_like(num_pieces, layout.row_length)
        before = np.cumsum(cells) - cells
        row, column = slot % slots, before - before[(np.cumsum(num_pieces) - num_pieces)[slot]]
    else:
        narrowest = int(_cells_of(layout, np.ones(1, np.uint32), 1)[0])
        rows, widths = np.maximum(num_pieces, 1), np.full_like(num_pieces, narrowest)
        np.maximum.at(widths, slot, cells)
        row, column = runs(0, num_pieces), np.zeros_like(length)
        if layout.side == "left":
            column = widths[slot] - length
    return {
        "sequence": sequence,
        "start": start,
        "length": length,
        "step": slot // (slots * micro_batches * num_workers),
        "worker": slot // (slots * micro_batches) % num_workers,
        "micro_batch": slot // slots % micro_batches,
        "row": row,
        "column": column,
        "_slot": slot,
        "_rows": rows,
        "_widths": widths,
    }


def _per_sequence(
    name: str,
    values: ArrayLike,
    kinds: str,
    least: float,
    most: float,
    wanted: int | None = None,
) -> NDArray[Any]:
    """Return one number for each sequence; ValueError names the first that is out of range."""
    array = np.asarray(values)
    if array.ndim != 1 or len(array) != (len(array) if wanted is None else wanted):
        shape = "(n,)" if wanted is None else f"({wanted},), as the lengths have"
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    if len(array) and array.dtype.kind not in kinds:
        raise TypeError(f"{name} must be numbers of the kinds {kinds!r}, got {array.dtype}")
    if len(array) and not least <= array.min() <= array.max() <= most:  # NaN is not, too
        at = int((~((array >= least) & (array <= most))).argmax())
        raise ValueError(f"{name} of sequence {at} is {array[at]}")
    return array


def _rule_of(
    layout: LengthsLayout, sizes: _U32, multiple_of: int, keeps_order: bool
) -> tuple[LengthsLayout, _core.compose.RowRule, LengthLimit]:
    """Return the layout with boundaries, its rule, and the most that a sequence may have."""
    width = _core.compose.Width
    if isinstance(layout, Packed):
        if layout.row_length % multiple_of:
            raise ValueError(
                f"multiple_of={multiple_of} does not divide rows of {layout.row_length}"
            )
        rule = _core.compose.RowRule(
            layout.row_length, layout.look_ahead, keeps_order, width.OWN
        )
        return layout, rule, layout.length_limit
    most: int | None = getattr(layout, "micro_batch_cells", None)
    if most is None:
        raise ValueError(
            "plan_lengths plans sh.Packed(...), or sh.Padded(...) and sh.Bucketed(...) with "
            f"micro_batch_cells=, got {shown(layout)}"
        )
    if isinstance(layout, Bucketed):
        if layout.boundaries == "auto" and not len(sizes):
            layout = replace(layout, boundaries=(most,), num_buckets=None)
        elif len(sizes):
            layout = layout.settle(corpus_of(sizes), {})
        limit = layout.length_limit
        assert limit is not None
        if limit.longest > most:
            raise ValueError(
                f"micro_batch_cells={most} has no room for the boundary {limit.longest}"
            )
        return layout, _core.compose.RowRule(most, 1, keeps_order, width.EQUAL), limit
    limit = LengthLimit(
        most // layout.multiple_of * layout.multiple_of,
        f"a micro-batch of {most} cells",
        "error",
        "raise micro_batch_cells, or leave it out of the lengths",
    )
    return layout, _core.compose.RowRule(most, 1, keeps_order, width.WIDEST), limit


def _cells_of(layout: LengthsLayout, sizes: _U32, multiple_of: int) -> _U32:
    """Return the cells that pieces take; of a padded layout, the width that they need."""
    if isinstance(layout, Bucketed):
        boundaries = np.array(layout.boundaries, np.uint32)
        return boundaries[np.searchsorted(boundaries, sizes)]
    multiple = layout.multiple_of if isinstance(layout, Padded) else multiple_of
    return sizes if multiple == 1 else ((sizes - 1) // multiple + 1) * np.uint32(multiple)


def _cut(limit: LengthLimit, sizes: _U32, left_out: dict[int, str]) -> _Pieces:
    """Return the pieces of sequences, those that are too long treated as the limit says."""
    most, every = limit.longest, np.arange(len(sizes), dtype=np.uint32)
    firsts = np.zeros(len(sizes), np.uint32)
    longest = int(sizes.max(initial=0))
    if longest > most:
        is_long = sizes > most
        if limit.policy == "error":
            raise ValueError(
                f"{is_long.sum()} of {len(sizes)} sequences have more samples than "
                f"{limit.what}; the longest is sequence {int(sizes.argmax())} with {longest}; "
                f"{limit.advice}"
            )
        if limit.policy == "drop":
            left_out |= dict.fromkeys(
                np.flatnonzero(is_long).tolist(), f"longer than {limit.what}"
            )
            every = np.flatnonzero(~is_long).astype(np.uint32)
            firsts, sizes = firsts[every], sizes[every]
        else:
            times = -(-sizes.astype(np.int64) // most)
            every = np.repeat(every, times)
            number = runs(0, times)
            firsts = (number * most).astype(np.uint32)
            sizes = np.minimum(sizes[every] - firsts, np.uint32(most))
    return _Pieces(every, firsts, sizes, sizes)


def _loaded(
    layout: LengthsLayout,
    pieces: _Pieces,
    name: str,
    counts: _U32,
    most: int,
    left_out: dict[int, str],
) -> _Pieces:
    """Return the pieces with their limited items, which come with the first of a sequence."""
    is_over = counts[pieces.sequences] > most
    if is_over.any() and layout.over_limit == "error":
        at = int(pieces.sequences[is_over.argmax()])
        raise ValueError(
            f"sequence {at} carries {counts[at]} of {name!r}, more than the limit of {most}; "
            "over_limit='drop' or 'alone' takes such ones"
        )
    if is_over.any() and layout.over_limit == "drop":
        reason = f"carries more of {name!r} than {most}"
        left_out |= dict.fromkeys(pieces.sequences[is_over].tolist(), reason)
        pieces = pieces.take(~is_over)
    own = np.minimum(counts[pieces.sequences], np.uint32(most))
    own[pieces.firsts > 0] = 0
    return replace(pieces, loads=(*pieces.loads, (own, most)))


def _without_large_groups(
    layout: LengthsLayout, pieces: _Pieces, row_length: int, left_out: dict[int, str]
) -> _Pieces:
    """Return what is left where groups that do not fit a row are dropped; or refuse them."""
    is_large = np.zeros(int(pieces.groups.max(initial=0)) + 1, bool)
    for counts, most in [(pieces.cells, row_length), *pieces.loads]:
        is_large |= np.bincount(pieces.groups, counts, len(is_large)) > most
    out = is_large[pieces.groups]
    if not out.any():
        return pieces
    if layout.length_limit is None or layout.length_limit.policy != "drop":
        raise ValueError(
            f"the group of sequence {int(pieces.sequences[out.argmax()])} does not fit a row "
            f"of {row_length}, or its limits; take longer rows, groups_together='worker', or "
            "split_long='drop'"
        )
    reason = f"its group does not fit a row of {row_length}"
    left_out |= dict.fromkeys(pieces.sequences[out].tolist(), reason)
    return pieces.take(~out)


def _deal_steps(
    pieces: _Pieces, labels: NDArray[np.int64] | None, num_steps: int
) -> list[NDArray[np.int64]]:
    """Return the pieces of each step, ascending."""
    if num_steps == 1:
        return [np.arange(len(pieces.sequences))]
    whole = pieces.groups if len(pieces.groups) else pieces.sequences
    groups, own = np.unique(whole, return_inverse=True)
    # Each sample but the first of a sequence is a label, unless it is known.
    counts = pieces.sizes - (pieces.firsts == 0).astype(np.int64)
    if labels is not None:
        counts = np.where(pieces.firsts == 0, labels[pieces.sequences], 0)
    summed = np.zeros(len(groups), np.int64)
    np.add.at(summed, own, counts)
    # Of equally many labels, equally many groups.
    costs = summed * (len(groups) + 1) + 1
    step = _core.compose.deal_evenly(costs.astype(np.uint64), num_steps)[own]
    return [np.flatnonzero(step == number) for number in range(num_steps)]
