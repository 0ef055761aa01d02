"""The settings of a session: how often it acts, checkpoints, validation and test."""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, Self, TypeAlias, get_args

from sweephand.base.checks import check_choice, check_flag, check_function, check_int
from sweephand.errors import ArgumentTypeError
from sweephand.source.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT
from sweephand.source.source import MinibatchSource
from sweephand.train.arguments import check_path, check_source
from sweephand.train.learners.learner import Restored

FrequencyUnit: TypeAlias = Literal["sample", "minibatch", "sweep", "epoch", "seconds"]
# How far training has come: label samples, minibatches, ... since its start.
Count: TypeAlias = Callable[[FrequencyUnit], int]
FrequencySpec: TypeAlias = int | tuple[int, FrequencyUnit] | None


@dataclass(frozen=True)
class Frequency:
    """Every ``count`` of a unit.

    Attributes
    ----------
    count : int or None
        0: never. None: once, at the end.
    unit : {"sample", "minibatch", "sweep", "epoch", "seconds"}
        Samples are label samples over all workers.
    """

    count: int | None
    unit: FrequencyUnit = "sample"

    @classmethod
    def parse(cls, name: str, spec: object) -> Self:
        """Parse a frequency: a number of samples, ``(n, unit)``, 0 or None.

        ``FULL_DATA_SWEEP`` is every sweep, ``INFINITELY_REPEAT`` once at the end. Anything else
        is an ArgumentTypeError or ValueError.
        """
        if spec is None or spec == INFINITELY_REPEAT:
            return cls(None)
        if spec == FULL_DATA_SWEEP:
            return cls(1, "sweep")
        if not isinstance(spec, tuple):
            return cls(check_int(name, spec, least=0))
        if len(spec) != 2 or spec[1] not in get_args(FrequencyUnit):
            raise ValueError(
                f"{name} must be None, a number of samples or (n, unit) with a unit of "
                f"{', '.join(get_args(FrequencyUnit))}, got {spec!r}"
            )
        return cls(check_int(name, spec[0], least=0), spec[1])


Restore: TypeAlias = Literal["auto"] | bool | str | Path


@dataclass(frozen=True)
class CheckpointConfig:
    """Checkpoints of a session: where and how often it saves, and how it restores.

    Parameters
    ----------
    filename : path or None
        The folder of the checkpoints, with any name: CNTK's ``"model.cp"`` is a folder here.
        One run at a time saves in it. None: no checkpoints.
    frequency : None, int or (int, unit)
        As for `training_session`.
    restore : {"auto", True, False} or path
        The checkpoint to begin with. "auto": the newest whole one, or none, with a message.
        True: the newest one, and an error if there is none. A path: that one, for example one
        before the time that an added event changes. False: none. A run that resumes from the
        newest one is the same run; checkpoints of another run are never removed.
    preserve_all : bool
        Never remove a checkpoint.
    hyperparameters : {"checkpoint", "given"}
        Which schedules and hyperparameters hold after a restore: those of the checkpoint, with
        a warning for each that differs, or those that the learners were made with.
    keep_last : int, optional
        Number of the newest checkpoints to keep; 1 unless ``preserve_all``. The one of the last
        accepted epoch is kept too.

    Examples
    --------
    >>> import sweephand as sh
    >>> config = sh.CheckpointConfig("runs/first", frequency=(10, "minibatch"), keep_last=2)
    >>> config.restore
    'auto'
    """

    filename: str | Path | None
    frequency: FrequencySpec = None
    restore: Restore = "auto"
    preserve_all: bool = False
    keep_last: int | None = None
    hyperparameters: Restored = "checkpoint"

    def __post_init__(self) -> None:
        Frequency.parse("frequency", self.frequency)
        if self.filename is not None:
            check_path("filename", self.filename)
        if self.restore == "" or not isinstance(self.restore, bool | str | PathLike):
            raise ArgumentTypeError(
                f"restore must be 'auto', True, False or a path, got {self.restore!r}"
            )
        if self.filename is None and (self.frequency is not None or self.restore != "auto"):
            raise ValueError("a checkpoint frequency or restore needs a filename")
        if self.preserve_all and self.keep_last is not None:
            raise ValueError("give preserve_all or keep_last, not both")
        if self.keep_last is not None:
            check_int("keep_last", self.keep_last)
        check_flag("preserve_all", self.preserve_all)
        check_choice("hyperparameters", self.hyperparameters, "checkpoint", "given")


# Called with the index of the validation, its average error, label samples and minibatches.
ValidationCallback: TypeAlias = Callable[[int, float, int, int], bool | None]


@dataclass(frozen=True)
class CrossValidationConfig:
    """Validation of a session: how often, on which data, and its callback.

    Parameters
    ----------
    minibatch_source : MinibatchSource, optional
        Read from its position to its end, or for ``max_samples``, and then put back.
    frequency : None, int or (int, unit)
        As for `training_session`.
    minibatch_size : int
        In samples.
    callback : callable, optional
        ``callback(index, average_error, num_samples, num_minibatches)`` is called after each
        validation; the error is the metric per label sample, or the loss without a metric, and
        all are 0 without a source. If it returns False, training ends after the other actions
        of that step.
    max_samples : int, optional
        Label samples.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> held_out = sh.ArrayDeserializer({"labels": np.float32([1, 2, 3, 4])})
    >>> source = sh.MinibatchSource(held_out, max_sweeps=1)
    >>> config = sh.CrossValidationConfig(source, frequency=(1, "sweep"), minibatch_size=1024)
    >>> config.frequency  # cv_config=config of a training_session
    (1, 'sweep')
    """

    minibatch_source: MinibatchSource | None = None
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
    """The data on which a session tests the model when training has ended.

    Parameters
    ----------
    minibatch_source : MinibatchSource
        Read from its position to its end, and then put back.
    minibatch_size : int
        In samples.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> held_out = sh.ArrayDeserializer({"labels": np.float32([1, 2, 3, 4])})
    >>> config = sh.TestConfig(sh.MinibatchSource(held_out, max_sweeps=1), minibatch_size=1024)
    >>> config.minibatch_size  # test_config=config of a training_session
    1024
    """

    __test__ = False  # pytest collects classes named Test...

    minibatch_source: MinibatchSource
    minibatch_size: int = 32

    def __post_init__(self) -> None:
        check_source("minibatch_source", self.minibatch_source)
        check_int("minibatch_size", self.minibatch_size)
        if self.minibatch_source.is_infinite:
            raise ValueError("the test source never ends: give it max_sweeps or max_samples")
