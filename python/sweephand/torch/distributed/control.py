"""The control of a step: all workers go on, stop, or fail together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn
from zlib import crc32

import torch
import torch.distributed as dist

from sweephand.base.checks import check_number
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import LossScaleError, some_of
from sweephand.layouts.attention import Attention
from sweephand.loans.desk import Desk, RemoteDesk
from sweephand.minibatch.minibatch import Minibatch
from sweephand.source.source import MinibatchSource
from sweephand.torch.distributed.coordinate import coordinate, has_group
from sweephand.torch.distributed.exchange import Exchange
from sweephand.train.trainer.workers import Agreement, ErrorMessage, WorkerError, Workers

if TYPE_CHECKING:
    from sweephand.torch.distributed.coordinate import GroupOrMesh

_DIGESTS = 2**40  # so few that a sum over ranks fits
# Errors that all workers raise by themselves, from reduced values.
_RAISED_BY_ALL = FloatingPointError | LossScaleError
# Texts in errors of collectives whose other end is gone.
_BROKEN = "gloo", "nccl", "closed by peer", "reset by peer", "processgroup"
_MOST = 8  # ranks and fields that are named


class Control(Workers):
    """Control that makes all workers continue, stop or fail together, by a reduction a step.

    The reduction goes through main memory and carries failures, requests to stop, and digests
    of the planned minibatch. If a rank has failed, or ranks are about to train on different
    minibatches, all raise the same error, which names the rank. As a context manager it also
    posts an error that leaves the block on this rank: the others raise it when their own
    exchanges fail. A single process behaves the same, without a reduction.

    All ranks create it at the same time, with the same arguments, and make the same calls.

    Parameters
    ----------
    limit : float
        Seconds that a rank waits for the others before it raises `WorkerError`; half an hour
        while a rank saves. Choose more than the largest delay of any rank, and less than the
        time-out of the group.
    group_or_mesh, dims
        As for `coordinate`. The exchange is among all processes of ``torch.distributed``, or
        those of the given group.

    Attributes
    ----------
    num_partitions, partition_index : int
        The number of workers that share the data, and the index of this one.
    rank : int
        Of this process in the exchange.
    is_stopped : bool
        True if a rank was asked to stop before the last exchange.

    Raises
    ------
    ValueError
        If the ranks do not make up a whole number of workers; and as `coordinate`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> source = sh.MinibatchSource({"x": np.arange(6)}, max_sweeps=1)
    >>> with sh.torch.distributed.Control(limit=60.0) as control:
    ...     for minibatch in control.minibatches(source, 4):
    ...         print(minibatch.num_samples, "of", minibatch.global_num_samples)
    4 of 4
    2 of 2
    """

    def __init__(
        self,
        limit: float = 60.0,
        group_or_mesh: GroupOrMesh | None = None,
        dims: str | Sequence[str] | None = None,
    ) -> None:
        self.limit = check_number("limit", limit)
        if not self.limit > 0:
            raise ValueError(f"limit must be above 0 seconds, got {limit}")
        self.num_partitions, self.partition_index = coordinate(group_or_mesh, dims)
        self.is_stopped = False
        self._stop_wanted = False
        self._exchange: Exchange | None = None
        group = group_or_mesh if isinstance(group_or_mesh, dist.ProcessGroup) else None
        if not has_group() or (group.size() if group else dist.get_world_size()) == 1:
            return
        exchange = self._exchange = Exchange(timedelta(seconds=self.limit), group)
        self.rank, self.maximum = exchange.rank, exchange.maximum
        exchange.sum([0])  # all are here
        coordinates = exchange.gather((self.num_partitions, self.partition_index))
        count, each = self.num_partitions, len(coordinates) // self.num_partitions
        if sorted(coordinates) != [(count, i) for i in range(count) for _ in range(each)]:
            listed = [f"{one} on rank {rank}" for rank, one in enumerate(coordinates)]
            raise ValueError(
                "the ranks do not share the data: each (K, index) with index of 0 to K - 1 "
                "must be there equally often, with one K, but there are "
                f"{some_of(listed, 2 * _MOST)}"
            )
        alike = [rank for rank, one in enumerate(coordinates) if one[1] == self.partition_index]
        self.counts = alike[0] == self.rank
        # Factors of digests of the minibatch and of a share: sums of equal ones are 0.
        everyone = range(exchange.num_ranks)
        self._weights = _balance(everyone, self.rank), _balance(alike, self.rank)

    def request_stop(self, *_: object) -> None:
        """Ask all workers to stop with the next exchange; it can be a handler of signals."""
        self._stop_wanted = True

    def next_minibatch(
        self,
        source: MinibatchSource,
        size: int,
        input_map: Mapping[Any, str | StreamInfo] | None = None,
        device: object = None,
    ) -> Minibatch:
        """Return this worker's share of the next minibatch, when all have theirs.

        The arguments are those of `MinibatchSource.next_minibatch`. After an error the source
        is where it was.

        Raises
        ------
        WorkerError
            If a rank is gone or late, or the ranks are at different places.
        Exception
            What the source of any rank has raised, on all of them, naming the rank.
        """
        before = source.position
        minibatch, error = None, None
        try:
            share = self.num_partitions, self.partition_index
            minibatch = source.next_minibatch(size, input_map, device, *share)
        except Exception as caught:
            error = caught
        try:
            self.agree(error=error, minibatch=minibatch)
        except Exception:
            source.position = before
            raise
        assert minibatch is not None
        return minibatch

    def minibatches(self, source: MinibatchSource, size: int) -> Iterator[Minibatch]:
        """Iterate over this worker's shares until the end of data, or until a rank is to stop.

        All ranks get the same number of shares. The source is then after the last minibatch
        that was handed out.
        """
        stops = self.is_stopped
        while not stops:
            before = source.position
            minibatch = self.next_minibatch(source, size)
            stops = self.is_stopped
            if stops:
                source.position = before
            elif minibatch:
                yield minibatch
            else:
                return

    def agree(
        self,
        counts: Sequence[int] = (),
        *,
        error: Exception | None = None,
        stop: bool = False,
        minibatch: object = None,
    ) -> Agreement:
        """Return sums over the workers, or raise the error of any of them, on all.

        Of ranks with the same data the counts of one are summed, at most 12. `error` is why
        this rank cannot go on, `minibatch` its share of what they are to train on: all must
        have shares of the same.
        """
        stop = stop or self._stop_wanted
        if self._exchange is None:
            self.is_stopped = stop
            return super().agree(counts, error=error, stop=stop)
        place = _place_of(minibatch)
        of_all, of_alike = self._weights
        failed, stops, apart, alike_apart, *sums = self._exchange.sum(
            [
                error is not None,
                stop,
                hash(place) % _DIGESTS * of_all,
                crc32(_share_of(minibatch)) * of_alike if of_alike else 0,
                *(counts if self.counts else [0] * len(counts)),
            ]
        )
        if failed:  # the first rank with an error has that of all
            errors = self._exchange.gather(error and ErrorMessage.of(error, self.rank))
            first = next(one for one in errors if one is not None)
            raise self._exchange.known(first.error()) from error
        if apart or alike_apart:
            self._raise_apart(self._exchange, place)
        self.is_stopped = stops > 0
        return Agreement(sums, self.is_stopped)

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sum over the workers of each of up to 16 numbers."""
        if self._exchange is None:
            return list(values)
        return self._exchange.sum(values if self.counts else [0] * len(values), torch.float64)

    def gather(self, state: Any, *, is_patient: bool = False) -> list[Any]:
        """Return the object of each rank, which pickles, rank 0 first.

        If patient, wait half an hour for the others: one of them may be writing a checkpoint.
        """
        if self._exchange is None:
            return [state]
        return self._exchange.gather(state, is_patient=is_patient)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Send an error of this rank to all ranks, or raise the error of another rank."""
        if self._exchange is None or not isinstance(error, Exception):
            return
        if isinstance(error, _RAISED_BY_ALL) or self._exchange.knows(error):
            return
        said = str(error).lower()
        is_broken = isinstance(error, RuntimeError) and any(word in said for word in _BROKEN)
        if is_broken or isinstance(error, WorkerError):
            why = self._exchange.explain(error)
            if not isinstance(error, WorkerError) or not isinstance(why, WorkerError):
                raise why from error
        else:
            self._exchange.post(ErrorMessage.of(error, self.rank))

    def _raise_apart(self, exchange: Exchange, place: tuple[int, ...]) -> NoReturn:
        places = exchange.gather(place)
        others = [rank for rank, one in enumerate(places) if one != places[0]]
        reason = "ranks of one worker have different shares of a minibatch"
        if others:
            reason = (
                f"rank {others[0]} is to train on another minibatch than rank 0: nominal time, "
                f"samples and progress are {places[others[0]]} there, {places[0]} on rank 0"
            )
        advice = "make all sources alike, as guard(source) checks, and ask for the same sizes"
        raise exchange.known(WorkerError(f"{reason}: {advice}", tuple(others)))


def _balance(ranks: Sequence[int], rank: int) -> int:
    """Return a factor for each rank, such that equal numbers times it sum to 0."""
    return 1 - len(ranks) if rank == ranks[0] else 1


def _place_of(minibatch: object) -> tuple[int, ...]:
    """Return the place of a minibatch in integers, which hash alike on all ranks."""
    plan = getattr(minibatch, "_plan", None)
    if plan is None:
        return ()
    if plan.end_of_data:
        return (plan.nominal_time,)
    return (plan.nominal_time, plan.num_samples, *plan.next.progress)


def _share_of(minibatch: object) -> bytes:
    """Return which sequences a share has."""
    plan = getattr(minibatch, "_plan", None)
    return b"" if plan is None else plan.sequences().tobytes()


def guard(source: MinibatchSource, control: Control | None = None) -> None:
    """Compare corpus, seed, settings, position and version over the ranks of a control.

    All ranks call it, before the first step and after a restore. The sources must be made with
    equal arguments; the folder may differ.

    Raises
    ------
    ValueError
        On all ranks, if they differ, with the ranks and the differences.
    WorkerError
        If a rank does not arrive.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> sh.torch.distributed.guard(sh.MinibatchSource({"x": np.arange(6)}))
    """
    control = control or Control()
    mine, error = {}, None
    try:
        settings = source.timeline.options
        mine = {
            **source.get_checkpoint_state(),
            "limit in samples": source.timeline.limit,
            "balance": Attention() if settings.balance == "attention" else settings.balance,
            "micro_batch_rows": source.layout.micro_batch_rows,
            "max_errors": settings.max_errors,
            "version of sweephand": version("sweephand"),
        }
    except Exception as caught:
        error = caught
    control.agree(error=error)
    first, *others = control.gather(mine)
    apart: dict[str, list[int]] = {}
    for rank, theirs in enumerate(others, 1):
        for name in sorted(first.keys() | theirs.keys()):
            here, there = first.get(name), theirs.get(name)
            if here != there:
                how = f"{name} is {there!r} there and {here!r} on rank 0"
                apart.setdefault(how, []).append(rank)
    if apart:
        said = [
            f"rank{'s' * (len(ranks) > 1)} {some_of(ranks, _MOST)}: {how}"
            for how, ranks in list(apart.items())[:_MOST]
        ]
        raise ValueError(f"the sources of the ranks differ: {'; '.join(said)}")


class RankDesk(RemoteDesk):
    """The desk of rank 0, for all ranks, which make the same calls together.

    In each call rank 0 answers one rank after the other: `take` lends n sequences to each. An
    error of any is raised on all; every call raises `WorkerError` if a rank does not arrive.
    What is asked and answered goes to all ranks: prompts and tickets are small.

    Parameters
    ----------
    desk : Desk or None
        The desk, on rank 0; ValueError is raised if it has none.
    control : Control, optional
        The ranks, and their time limit; by default all ranks and a minute.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> source = sh.MinibatchSource({"x": np.arange(6)}, max_sweeps=1)
    >>> desk = sh.torch.distributed.RankDesk(source.lend())
    >>> desk.done(desk.take(4).tickets).shape
    (4,)
    """

    def __init__(self, desk: Desk | None, control: Control | None = None) -> None:
        self._control = control or Control()
        self._desk = desk if self._control.rank == 0 else None
        if self._control.rank == 0 and desk is None:
            raise ValueError("rank 0 has the desk: RankDesk(source.lend()) there")

    def ask(self, name: str, *arguments: Any) -> Any:
        """Return what the desk of rank 0 answers to this rank."""
        asked, answers = self._control.gather((name, arguments)), None
        if self._desk is not None:
            answers = [self.answer(self._desk, *one) for one in asked]
        answers = self._control.gather(answers)[0]
        for answer in answers:
            self.taken(answer)
        return answers[self._control.rank][0]
