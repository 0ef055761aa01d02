"""Minibatches from a source, in step with the other workers, until a signal ends the run."""

import logging
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from sweephand.source.source import MinibatchSource
from sweephand.train.trainer.trained_model import Data
from sweephand.train.trainer.trainer import Trainer

# EX_TEMPFAIL of sysexits.h: try again later.
PREEMPTED_EXIT_CODE = 75
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)

logger = logging.getLogger("sweephand")


class Preempted(Exception):
    """The end of training by a signal, in time to save."""


class Preemption:
    """A context in which SIGTERM and SIGUSR1 only set a flag, if that is wanted.

    Outside of the main thread it cannot, which is logged.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._handlers: dict[signal.Signals, Any] = {}
        self.is_requested = False

    def __enter__(self) -> Self:
        """Install the handlers."""
        if self._is_wanted and threading.current_thread() is not threading.main_thread():
            logger.warning("signals reach the main thread only: this run cannot be preempted")
        elif self._is_wanted:
            self._handlers = {one: signal.signal(one, self._request) for one in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous handlers."""
        for one, handler in self._handlers.items():
            signal.signal(one, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.is_requested = True


class MinibatchFeed:
    """Reads minibatches, and exchanges the counts of all workers at once.

    `watch` is called before each exchange on every worker; what it raises ends training on all.
    """

    def __init__(
        self,
        trainer: Trainer,
        preemption: Preemption,
        watch: Callable[[], object],
    ) -> None:
        self._trainer = trainer
        self._workers = trainer.model.workers
        self._preemption = preemption
        self._watch = watch
        self._is_preempted = False
        self.num_sequences = 0  # of the last minibatch, over all workers
        self._started = time.monotonic()
        self.seconds = 0  # since the start of training, those before a restore included

    def begin_at(self, seconds: int) -> None:
        """Continue counting at a number of seconds."""
        self.seconds = seconds
        self._started = time.monotonic() - seconds

    def next(self, source: MinibatchSource, size: int) -> tuple[Data, int]:
        """Return this worker's share of the next minibatch, and the label samples of all.

        If one of them cannot read its share, all raise why.
        """
        minibatch: Data = {}
        num_samples = 0
        error = None
        try:
            self._watch()
            device, workers = self._trainer.model.device, self._workers
            share = workers.num_partitions, workers.partition_index
            minibatch = source.next_minibatch(size, None, device, *share)
            if minibatch:
                num_samples = self._trainer.count_local_label_samples(minibatch)
        except Exception as caught:
            error = caught
        is_first = self._workers.rank == 0
        counts, self._is_preempted = self._workers.agree(
            [
                num_samples,
                getattr(minibatch, "num_sequences", 0),
                int(time.monotonic() - self._started) if is_first else 0,
            ],
            error=error,
            stop=self._preemption.is_requested,
            minibatch=minibatch,
        )
        num_samples, self.num_sequences, self.seconds = counts
        return minibatch, num_samples

    def raise_if_preempted(self) -> None:
        """Raise `Preempted` on all workers if any of them was asked to leave."""
        alone = self._workers.num_partitions == 1
        if self._is_preempted or (alone and self._preemption.is_requested):
            raise Preempted
