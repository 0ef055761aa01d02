"""Plans of lengths in hand: which worker gets which sequence, in which micro-batch and row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand import _core
from sweephand.base.checks import check_choice, check_int
from sweephand.errors import shown
from sweephand.layouts import Packed
from sweephand.lengths.lengths_plan import LengthPieces, LengthsPlan
from sweephand.source.balance import Balance, cost_of, costs_of_items

_U32 = NDArray[np.uint32]


def plan_lengths(
    lengths: ArrayLike | Mapping[str, ArrayLike],
    layout: Packed,
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
    layout : Packed
        Rows and micro-batches (one row each, unless ``micro_batch_rows`` says more), limits,
        and the treatment of what is too long.
    num_data_partitions : int
        Workers. All have equally many micro-batches, and each has a sequence where there are
        enough.
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
        Optimizer steps with equally many micro-batches. Groups, or sequences, are dealt to
        them whole, those with most labels first.
    micro_batch_multiple : int
        What the number of micro-batches is a multiple of, as a pipeline asks for.
    multiple_of : int
        Segments begin at multiples of it inside their row.
    max_sequences : int, optional
        The most segments of a row.
    order : {"longest", "given"}
        Rows are opened by the longest sequence, or by the first of those in sight, as in a
        source that is not shuffled.
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
    >>> minibatch.indices, minibatch["tokens"].asarray(), minibatch.global_num_label_samples
    (array([0, 1]), array([[0, 1, 2, 0, 1, 2, 3, 4]]), 12)
    """
    if not isinstance(layout, Packed):
        raise ValueError(f"plan_lengths plans sh.Packed(...), got {shown(layout)}")
    check_int("num_data_partitions", num_data_partitions, 1, 2**31)
    check_int("num_steps", num_steps, 1, 2**31)
    check_int("micro_batch_multiple", micro_batch_multiple, 1, 2**31)
    check_int("multiple_of", multiple_of, 1, 2**31)
    check_choice("groups_together", groups_together, "worker", "row")
    check_choice("order", order, "longest", "given")
    check_choice("leftovers", leftovers, "fill", "carry")
    if max_sequences is not None:
        check_int("max_sequences", max_sequences, 1, 2**31)
    if layout.row_length % multiple_of:
        raise ValueError(
            f"multiple_of={multiple_of} does not divide rows of {layout.row_length}"
        )
    if leftovers == "carry" and groups is not None and groups_together == "worker":
        raise ValueError(
            "leftovers='carry' leaves rows over, and may leave a part of a group: take "
            "groups_together='row', or leftovers='fill'"
        )
    counts = _counts_of(lengths)
    chosen = next(iter(counts)) if size is None else size
    if chosen not in counts:
        raise ValueError(f"size={size!r} is none of the lengths: {', '.join(counts)}")
    sizes = counts[chosen]
    if len(sizes) and not sizes.all():
        raise ValueError(f"sequence {int(sizes.argmin())} has a length of 0")
    for name, found in counts.items():
        _check_count(f"lengths[{name!r}]", found, len(sizes))
    labels = sizes.astype(np.int64) - 1 if num_labels is None else _labels_of(num_labels)
    _check_count("num_labels", labels, len(sizes))
    weights = labels.astype(np.float64)
    if label_weight is not None:
        weights = np.asarray(label_weight, np.float64)
        _check_count("label_weight", weights, len(sizes))
        if not np.isfinite(weights).all():
            at = int(np.flatnonzero(~np.isfinite(weights))[0])
            raise ValueError(f"label_weight of sequence {at} is {weights[at]}")
    left_out: dict[int, str] = {}
    group_of = None
    if groups is not None:
        group_of = np.asarray(groups)
        _check_count("groups", group_of, len(sizes))
    pieces = _cut(layout, sizes, multiple_of, left_out)
    loads = _loads(layout, counts, pieces)
    together = _Together.of(group_of, pieces, groups_together)
    if together.in_row:
        pieces, loads, together = _without_large_groups(
            layout, pieces, loads, together, left_out
        )
    if max_sequences is not None:
        loads = [*loads, (np.ones(len(pieces.sequences), np.uint32), max_sequences)]
        most = np.bincount(together.group_of).max(initial=0) if together.in_row else 0
        if most > max_sequences:
            raise ValueError(
                f"a group has {most} sequences, more than max_sequences={max_sequences}"
            )
    if leftovers == "carry" and pieces.firsts.any():
        raise ValueError(
            f"sequence {int(pieces.sequences[pieces.firsts.argmax()])} is split, and "
            "leftovers='carry' may leave a part of it: take leftovers='fill'"
        )
    items = {name: _core.index.StoredSizes(counts[name]) for name in costs_of_items(balance)}
    planner = _Planner(
        pieces,
        loads,
        together,
        _core.compose.RowRule(layout.row_length, layout.look_ahead, order == "given"),
        num_data_partitions,
        layout.micro_batch_rows or 1,
        cost_of(balance, items),
    )
    steps = _deal_steps(pieces, together, labels, num_steps)
    num_micro_batches, rest, laid = _lay(planner, steps, micro_batch_multiple, leftovers)
    placed = [
        (step if own is None else own[step])
        for own, step in zip(steps, (one.pieces for one in laid), strict=True)
    ]
    return LengthsPlan(
        layout=layout,
        num_data_partitions=num_data_partitions,
        num_steps=num_steps,
        num_micro_batches=num_micro_batches,
        multiple_of=multiple_of,
        left_out=dict(sorted(left_out.items())),
        rest=np.unique(rest).astype(np.int64),
        _sizes=sizes,
        _pieces=pieces,
        _placed=placed,
        _ends=[one.ends for one in laid],
        _loads=[one.loads for one in laid],
        _labels=labels,
        _weights=weights,
        _has_labels=num_labels is not None,
    )


_Loads = Sequence[tuple[_U32, int]]


@dataclass(frozen=True)
class _Together:
    """The group of each piece; numbers ascend with the first piece. Empty: there are none."""

    group_of: _U32
    num_groups: int
    in_row: bool

    @classmethod
    def of(cls, groups: NDArray[Any] | None, pieces: LengthPieces, where: str) -> _Together:
        if groups is None:
            return cls(np.empty(0, np.uint32), 0, False)
        return cls.numbered(groups[pieces.sequences], where == "row")

    @classmethod
    def numbered(cls, groups: NDArray[Any], in_row: bool) -> _Together:
        _, firsts, own = np.unique(groups, return_index=True, return_inverse=True)
        number = np.empty(len(firsts), np.uint32)
        number[np.argsort(firsts)] = np.arange(len(firsts), dtype=np.uint32)
        return cls(number[own.reshape(-1)], len(firsts), in_row)

    def take(self, chosen: NDArray[Any]) -> _Together:
        if not len(self.group_of):
            return self
        return self.numbered(self.group_of[chosen], self.in_row)


def _counts_of(lengths: ArrayLike | Mapping[str, ArrayLike]) -> dict[str, _U32]:
    given = lengths if isinstance(lengths, Mapping) else {"lengths": lengths}
    if not given:
        raise ValueError("lengths is an empty dict; its first entry is the size")
    found = {}
    for name, values in given.items():
        array = np.asarray(values)
        if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
            raise TypeError(
                f"{name!r} must be integers of shape (n,), got {array.dtype} of shape "
                f"{array.shape}"
            )
        if len(array) and not 0 <= int(array.min()) <= int(array.max()) < 2**32:
            is_wrong = (array < 0) | (array >= 2**32)
            at = int(is_wrong.argmax())
            raise ValueError(f"sequence {at} has a length of {array[at]}, in {name!r}")
        found[name] = np.ascontiguousarray(array, dtype=np.uint32)
    return found


def _labels_of(num_labels: ArrayLike) -> NDArray[np.int64]:
    labels = np.asarray(num_labels)
    if labels.ndim != 1 or (labels.dtype.kind not in "iu" and len(labels)):
        raise TypeError(f"num_labels must be integers of shape (n,), got {shown(num_labels)}")
    if len(labels) and labels.min() < 0:
        raise ValueError(f"sequence {int(labels.argmin())} has {labels.min()} labels")
    return labels.astype(np.int64)


def _check_count(name: str, values: NDArray[Any], wanted: int) -> None:
    if values.shape != (wanted,):
        raise ValueError(
            f"{name} must have shape ({wanted},), as the lengths have, got {values.shape}"
        )


def _cut(layout: Packed, sizes: _U32, multiple: int, left_out: dict[int, str]) -> LengthPieces:
    """Return the pieces of sequences, those that are too long treated as the layout says."""
    most, every = layout.row_length, np.arange(len(sizes), dtype=np.uint32)
    firsts = np.zeros(len(sizes), np.uint32)
    longest = int(sizes.max(initial=0))
    if longest > most:
        is_long = sizes > most
        limit = layout.length_limit
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
            number = np.arange(len(every)) - np.repeat(np.cumsum(times) - times, times)
            firsts = (number * most).astype(np.uint32)
            sizes = np.minimum(sizes[every] - firsts, np.uint32(most))
    cells = sizes if multiple == 1 else ((sizes - 1) // multiple + 1) * np.uint32(multiple)
    return LengthPieces(every, firsts, sizes, cells)


def _loads(layout: Packed, counts: Mapping[str, _U32], pieces: LengthPieces) -> _Loads:
    """Return the limited items of each piece; they come with the first one."""
    loads = []
    for name, most in layout.load_limits.items():
        if name not in counts:
            raise ValueError(f"limits name {name!r}, the lengths are of: {', '.join(counts)}")
        own = np.where(pieces.firsts == 0, counts[name][pieces.sequences], np.uint32(0))
        if int(own.max(initial=0)) > most:
            at = int(pieces.sequences[own.argmax()])
            if layout.over_limit != "alone":
                raise ValueError(
                    f"sequence {at} carries {own.max()} of {name!r}, more than the limit of "
                    f"{most}; leave it out of the lengths, raise the limit, or take "
                    "over_limit='alone'"
                )
            own = np.minimum(own, np.uint32(most))
        loads.append((own, most))
    return loads


def _without_large_groups(
    layout: Packed,
    pieces: LengthPieces,
    loads: _Loads,
    together: _Together,
    left_out: dict[int, str],
) -> tuple[LengthPieces, _Loads, _Together]:
    """Return what is left where groups that do not fit a row are dropped; or refuse them."""
    is_large = np.zeros(together.num_groups, bool)
    for counts, most in [(pieces.cells, layout.row_length), *loads]:
        is_large |= np.bincount(together.group_of, counts, together.num_groups) > most
    if not is_large.any():
        return pieces, loads, together
    out = is_large[together.group_of]
    first = int(pieces.sequences[out.argmax()])
    if layout.split_long != "drop":
        raise ValueError(
            f"the group of sequence {first} does not fit a row of {layout.row_length}; take "
            "longer rows, groups_together='worker', or split_long='drop'"
        )
    reason = f"its group does not fit a row of {layout.row_length}"
    left_out |= dict.fromkeys(pieces.sequences[out].tolist(), reason)
    kept = [(counts[~out], most) for counts, most in loads]
    return pieces.take(~out), kept, together.take(~out)


def _deal_steps(
    pieces: LengthPieces, together: _Together, labels: NDArray[np.int64], num_steps: int
) -> list[NDArray[np.int64] | None]:
    """Return the pieces of each step, ascending; None are all."""
    if num_steps == 1:
        return [None]
    whole = together
    if not len(whole.group_of):
        whole = _Together.numbered(pieces.sequences, False)
    own = np.where(pieces.firsts == 0, labels[pieces.sequences], 0)
    summed = np.zeros(whole.num_groups, np.int64)
    np.add.at(summed, whole.group_of, own)
    # Of equally many labels, equally many groups.
    costs = summed * (whole.num_groups + 1) + 1
    step = _core.compose.deal_evenly(costs.astype(np.uint64), num_steps)[whole.group_of]
    return [np.flatnonzero(step == number) for number in range(num_steps)]


@dataclass(frozen=True)
class _Planner:
    """The rows of any pieces, by the same rules."""

    pieces: LengthPieces
    loads: _Loads
    together: _Together
    rule: _core.compose.RowRule
    num_workers: int
    micro_batch_rows: int
    balance: _core.compose.Cost | None

    def rows(
        self, chosen: NDArray[np.int64] | None, whole_rows: int, most_rows: int
    ) -> _core.compose.WorkerRows:
        pieces, loads, together = self.pieces, self.loads, self.together
        if chosen is not None:
            pieces, together = pieces.take(chosen), together.take(chosen)
            loads = [(counts[chosen], most) for counts, most in loads]
        return _core.compose.WorkerRows(
            pieces.sequences,
            pieces.firsts,
            pieces.sizes,
            pieces.cells,
            together.group_of,
            together.num_groups,
            together.in_row,
            self.rule,
            [counts for counts, _ in loads],
            [most for _, most in loads],
            _core.compose.DealRule(
                self.num_workers, self.micro_batch_rows, self.balance, whole_rows, most_rows
            ),
        )


def _lay(
    planner: _Planner,
    steps: Sequence[NDArray[np.int64] | None],
    multiple: int,
    leftovers: str,
) -> tuple[int, _U32, list[_core.compose.LaidPieces]]:
    """Return how many micro-batches each worker has, what is left over, and where all goes."""
    rows = planner.micro_batch_rows
    carried = planner.num_workers * rows * multiple if leftovers == "carry" else 0
    made = [planner.rows(step, carried, 2**63) for step in steps]
    most = [-(-one.most // rows) for one in made]
    count = min(most) if carried else -(-max(most) // multiple) * multiple
    if carried and max(most) > count:
        made = [
            planner.rows(step, carried, count * planner.num_workers * rows) for step in steps
        ]
    rest = [
        planner.pieces.sequences[one.left if step is None else step[one.left]]
        for one, step in zip(made, steps, strict=True)
    ]
    return count, np.concatenate(rest), [one.lay(count) for one in made]
