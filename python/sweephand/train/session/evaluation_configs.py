"""The settings for validating and testing in a training session."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sweephand.base.checks import check_function, check_int
from sweephand.source.source import MinibatchSource
from sweephand.train.arguments import check_source
from sweephand.train.session.frequency import Frequency, FrequencySpec

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

    Raises
    ------
    ValueError
        If the source is infinite and there is no ``max_samples``, or a number is out of range.

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

    Raises
    ------
    ValueError
        If the source is infinite.

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
