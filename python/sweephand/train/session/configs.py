"""What a training session does beside training: saving, validating, testing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from sweephand.checks import check_flag, check_function, check_int
from sweephand.errors import ArgumentTypeError
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.planned_minibatch import PlannedMinibatch
from sweephand.train.arguments import check_path, check_source
from sweephand.train.session.frequency import Frequency, FrequencySpec

Restore: TypeAlias = Literal["auto"] | bool | str | Path
# Called with the index of the validation, its average error, label samples and minibatches.
ValidationCallback: TypeAlias = Callable[[int, float, int, int], bool | None]


class Source(Protocol):
    """What a session asks of a minibatch source."""

    @property
    def is_infinite(self) -> bool:
        """Whether it never ends."""

    @property
    def num_samples_per_sweep(self) -> int:
        """Samples of one sweep."""

    @property
    def current_position(self) -> int:
        """Where the next minibatch begins, in samples."""

    def plan(self, size: int) -> Iterator[PlannedMinibatch]:
        """Tell what minibatches of a size would hold from here on, over all workers."""

    def next_minibatch(
        self,
        minibatch_size_in_samples: int,
        input_map: None,
        device: object,
        num_data_partitions: int,
        partition_index: int,
    ) -> Minibatch:
        """Return this worker's share of the next minibatch; a falsy one at the end of data."""

    def get_checkpoint_state(self) -> dict[str, object]:
        """Return where it stands, as JSON can hold it."""

    def restore_from_checkpoint(self, state: dict[str, object]) -> None:
        """Go to where a state was taken."""


@dataclass(frozen=True)
class CheckpointConfig:
    """Where and how often a session saves itself, and what it restores.

    Parameters
    ----------
    filename : path or None
        The folder that checkpoints are kept in, whatever its name: CNTK's ``"model.cp"`` is a
        folder here. One run at a time saves in it. None: there are none.
    frequency : None, int or (int, unit)
        As for `training_session`.
    restore : {"auto", True, False} or path
        What training begins with. "auto": the newest checkpoint that is whole, or none, which
        is said. True: the newest one, and an error if there is none. A path: that one. False:
        none. What goes on from the newest one is the same run; checkpoints of another run are
        never removed.
    preserve_all : bool
        Never remove a checkpoint.
    keep_last : int, optional
        How many of the newest stay; 1 unless ``preserve_all``. That of the last accepted epoch
        stays too.
    keep_every : int
        Those whose number is a multiple of it stay as well; 0: none.
    asynchronous : bool
        Whether training goes on while a checkpoint is written.

    Raises
    ------
    ValueError
        If there is a frequency or something to restore, but no folder; or settings contradict
        each other.
    """

    filename: str | Path | None
    frequency: FrequencySpec = None
    restore: Restore = "auto"
    preserve_all: bool = False
    keep_last: int | None = None
    keep_every: int = 0
    asynchronous: bool = True

    def __post_init__(self) -> None:
        Frequency.parse("frequency", self.frequency)
        if self.filename is not None:
            check_path("filename", self.filename)
        if not isinstance(self.restore, bool | str | PathLike):
            raise ArgumentTypeError(
                f"restore must be 'auto', True, False or a path, got {self.restore!r}"
            )
        if self.filename is None and (self.frequency is not None or self.restore != "auto"):
            raise ValueError("a checkpoint frequency or restore needs a filename")
        if isinstance(self.restore, str) and not self.restore:
            raise ValueError("restore must be 'auto', True, False or a path, got ''")
        if self.preserve_all and self.keep_last is not None:
            raise ValueError("give preserve_all or keep_last, not both")
        if self.keep_last is not None:
            check_int("keep_last", self.keep_last)
        check_int("keep_every", self.keep_every, least=0)
        check_flag("preserve_all", self.preserve_all)
        check_flag("asynchronous", self.asynchronous)


@dataclass(frozen=True)
class CrossValidationConfig:
    """How often a session validates, on what, and who is told.

    Parameters
    ----------
    minibatch_source : MinibatchSource, optional
        Read from where it stands to its end, or for ``max_samples``, and then put back.
    frequency : None, int or (int, unit)
        As for `training_session`.
    minibatch_size : int
        In samples.
    callback : callable, optional
        ``callback(index, average_error, num_samples, num_minibatches)`` is called after each
        validation; the error is the metric per label sample, or the loss without a metric, and
        all are 0 without a source. If it returns False, training ends when the other actions of
        that step are done.
    max_samples : int, optional
        Label samples.

    Raises
    ------
    ValueError
        If the source is infinite and there is no ``max_samples``, or a number is out of range.
    """

    minibatch_source: Source | None = None
    frequency: FrequencySpec = None
    minibatch_size: int = 32
    callback: ValidationCallback | None = None
    max_samples: int | None = None

    def __post_init__(self) -> None:
        if self.minibatch_source is not None:
            check_source("minibatch_source", self.minibatch_source)
        Frequency.parse("frequency", self.frequency)
        check_int("minibatch_size", self.minibatch_size)
        check_function("callback", self.callback)
        if self.max_samples is not None:
            check_int("max_samples", self.max_samples)
        if self.minibatch_source is None and self.callback is None:
            raise ValueError("cross-validation needs a minibatch_source or a callback")
        source = self.minibatch_source
        if source is not None and source.is_infinite and self.max_samples is None:
            raise ValueError(
                "the validation source never ends: give it max_sweeps or max_samples, or give "
                "max_samples here"
            )


@dataclass(frozen=True)
class TestConfig:
    """What a session tests the model with when training has ended.

    Parameters
    ----------
    minibatch_source : MinibatchSource
        Read from where it stands to its end, and then put back.
    minibatch_size : int
        In samples.

    Raises
    ------
    ValueError
        If the source is infinite.
    """

    __test__ = False  # pytest collects what is called Test...

    minibatch_source: Source
    minibatch_size: int = 32

    def __post_init__(self) -> None:
        check_source("minibatch_source", self.minibatch_source)
        check_int("minibatch_size", self.minibatch_size)
        if self.minibatch_source.is_infinite:
            raise ValueError("the test source never ends: give it max_sweeps or max_samples")
