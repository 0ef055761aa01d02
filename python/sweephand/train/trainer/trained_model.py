"""The interface of a model and its learners to the trainer."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, SupportsFloat, TypeAlias

from sweephand.errors import StateError, some_of
from sweephand.minibatch.labels import LABELS
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.minibatch_data import MinibatchData
from sweephand.train.learners.learner import Learner
from sweephand.train.loss_scale.judgement import StepResult
from sweephand.train.loss_scale.step_guard import StepGuard
from sweephand.train.trainer.workers import Workers

logger = logging.getLogger("sweephand")


def check_coverage(
    parameters: Mapping[str, Hashable],
    learned: Sequence[Hashable],
    frozen: Collection[Hashable] = (),
) -> None:
    """Raise ValueError unless each parameter, by identity, has one learner, if not frozen."""
    times = Counter(learned)
    if uncovered := [name for name, one in parameters.items() if not times[one]]:
        raise ValueError(f"no learner has the parameters {some_of(uncovered)}")
    if repeated := [name for name, one in parameters.items() if times[one] > 1]:
        raise ValueError(f"more than one learner has the parameters {some_of(repeated)}")
    if foreign := times.keys() - set(parameters.values()) - set(frozen):
        raise ValueError(
            f"the learners have {len(foreign)} parameters that are not the model's; the model "
            f"has {some_of(list(parameters))}"
        )


Shape: TypeAlias = tuple[int, ...]


class LossPlaces(NamedTuple):
    """Places of the losses of a minibatch."""

    # the stream that has a loss for each sample or cell; None: a loss for each sequence
    data: MinibatchData | None = None
    # columns of the cells in its dense array; None: a loss for each of its samples
    width: int | None = None


def find_losses(minibatch: Minibatch, shape: Shape, wanted: str) -> LossPlaces:
    """Return what losses of a shape are of, ``labels`` first, or raise ValueError."""
    size, count = math.prod(shape), minibatch.num_sequences
    if size == count or (count == 0 and size == 1):  # the sum over an empty share
        return LossPlaces()
    for data in _streams(minibatch):
        if data.num_samples == size and _is_flat(shape):
            return LossPlaces(data)
        if (width := _width(data, shape)) is not None:
            return LossPlaces(data, width)
    found = "their sum" if size == 1 else f"an array of shape {shape}"
    raise ValueError(f"{wanted}, got {found}; {_fitting(minibatch)}")


def check_losses(minibatch: object, shape: Shape) -> None:
    """Raise ValueError if losses of a minibatch of a source have none of these shapes."""
    if isinstance(minibatch, Minibatch):
        wanted = "the criterion must return the sum of the loss as a tensor or a number, or "
        find_losses(minibatch, shape, wanted + "losses that make it up")


def _is_flat(shape: Shape) -> bool:
    return math.prod(shape) == max(shape, default=1)


def _streams(minibatch: Minibatch) -> Iterator[MinibatchData]:
    if LABELS in minibatch:
        yield minibatch[LABELS]
    yield from (minibatch[key] for key in minibatch if key != LABELS)


def _width(data: MinibatchData, shape: Shape) -> int | None:
    """Return how many columns losses have if they are of the dense array of a stream."""
    if data.info.is_single:
        return None
    rows, columns, *_ = data.dense_shape
    for width in (columns, columns - 1):
        if math.prod(shape) == rows * width and (_is_flat(shape) or shape[0] == rows):
            return width
    return None


def _fitting(minibatch: Minibatch) -> str:
    """Describe the shapes that fit."""
    shapes = [f"({minibatch.num_sequences},) of its sequences"]
    for data in _streams(minibatch):
        name = data.info.name
        shapes.append(f"({data.num_samples},) of the samples of {name!r}")
        if not data.info.is_single:
            shapes.append(f"{data.dense_shape[:2]} of its cells")
    return f"shapes that fit are {', '.join(shapes[:5])}"


class PartNorms(NamedTuple):
    """Norms of the gradients of a step's parts with label samples, over all workers."""

    num_parts: SupportsFloat
    inverse_sizes: SupportsFloat  # the sum of one over the label samples of each
    squared: SupportsFloat  # the sum of the squared norms of their mean gradients
    together: SupportsFloat  # the squared norm of the mean gradient of all

    @classmethod
    def of_sums(cls, squared: Sequence[float], sizes: Sequence[int], together: float) -> Self:
        """Make them of the squared norms of gradient sums, and the label samples of each."""
        parts = [(norm, size) for norm, size in zip(squared, sizes, strict=True) if size]
        return cls(
            len(parts),
            sum(1 / size for _, size in parts),
            sum(norm / size**2 for norm, size in parts),
            together,
        )

    def estimate(self, num_samples: int) -> tuple[float, float]:
        """Return one sample's variance and the squared norm of the true gradient.

        Of that many label samples; NaN of fewer than two parts, or if a norm is not finite.
        """
        num_parts, inverse_sizes, squared, together = map(float, self)
        if num_parts < 2 or not math.isfinite(squared + together):
            return math.nan, math.nan
        excess = squared / num_parts - together
        variance = excess / (inverse_sizes / num_parts - 1 / num_samples)
        return variance, together - variance / num_samples


def noise_quotient(variance: float, gradient: float) -> float:
    """Return the noise scale of a variance and the squared norm of a gradient."""
    if math.isnan(variance) or math.isnan(gradient):
        return math.nan
    return max(variance, 0.0) / gradient if gradient > 0 else math.inf


Data: TypeAlias = Mapping[Any, Any]  # a minibatch: its streams by name


class Outcome(NamedTuple):
    """The outcome of one step."""

    # Sums over the label samples of all workers. On an accelerator they are still on their way,
    # and `float` waits for them. The metric is None if the criterion has none.
    loss: SupportsFloat
    metric: SupportsFloat | None
    # what became of it, for each learner; None without a loss scale
    results: list[StepResult | None]
    # What the criterion returned for each part of this worker's share: their sum, or one for
    # each sequence or token. `numpy.asarray` waits for those of an accelerator.
    losses: Sequence[tuple[Data, Any]] = ()
    norms: PartNorms | None = None  # of the gradients of all parts, if they were asked for


WEIGHTS = "model.npz"  # the file of parameters
# Files of a checkpoint by name. Their content is known to the model that made them alone.
SavedFiles: TypeAlias = Mapping[str, Any]


class TrainedModel(Protocol):
    """A model of one framework, its criterion and its learners."""

    @property
    def workers(self) -> Workers:
        """The workers that train it."""

    @property
    def device(self) -> object:
        """The device for its minibatches, or None for main memory."""

    @property
    def learners(self) -> Sequence[Learner]:
        """All learners, including those inside loss scales."""

    @property
    def guards(self) -> Sequence[StepGuard[Any]]:
        """The guards of steps, loss scales among them."""

    def check_part_norms(self) -> None:
        """Raise ValueError if norms of the gradients of parts cannot be measured."""

    def train(
        self,
        parts: Sequence[Data],
        num_samples: int,
        sweeps_ended: int,
        part_sizes: Sequence[int] | None = None,
    ) -> Outcome:
        """Take one step with the gradients of all parts of this worker's share together.

        The label samples are those of all workers. If the loss is not finite and there is no
        guard, FloatingPointError is raised and nothing is changed, but for an accelerator,
        where it is not known so early. With sizes of the parts, norms are measured.
        """

    def evaluate(self, minibatch: Data) -> tuple[float, float | None]:
        """Return the sums of loss and metric over all workers, in evaluation mode."""

    def check_savable(self) -> None:
        """Raise TypeError if `capture` cannot save the model."""

    def capture(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return copies of all that is learned: files by name, and the part in JSON."""

    def describe(self) -> dict[str, Any]:
        """Return the learned state except tensors, as JSON can hold it."""

    def tensors(self) -> dict[str, Any]:
        """Return the rest as it is: dicts of tensors, of sharded ones this process' shards."""

    def load(self, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Continue from the results of `tensors` and `describe`, or raise StateError."""

    def read(self, folder: Path) -> dict[str, Any]:
        """Return the files of a checkpoint, as `capture` made them, or raise StateError."""

    def check(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        """Raise StateError if a checkpoint is of another model or other learners."""

    def keep_hyperparameters(self, files: SavedFiles, state: dict[str, Any]) -> None:
        """Put the present hyperparameters into a state that was read."""

    def restore(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        """Continue from a captured state, which stays unchanged."""

    def capture_random_state(self) -> dict[str, Any]:
        """Return the states of all global random generators, as JSON can hold them."""

    def restore_random_state(self, state: Mapping[str, Any]) -> None:
        """Set all global random generators."""


def check_scales(scales: Sequence[object], saved: Sequence[object]) -> None:
    """Refuse other loss scales than those saved; they may be new where none was saved."""
    if saved and len(saved) != len(scales):
        raise StateError(
            f"the checkpoint has {len(saved)} loss scales, here are {len(scales)}: a run goes "
            "on with one, if need be LossScaleOptimizer(..., dynamic=False, initial_scale=1)"
        )


def restore_scales(scales: Sequence[Any], saved: Sequence[Mapping[str, Any]]) -> None:
    """Continue the loss scales that were saved; those that are new start afresh."""
    for scale, state in zip(scales, saved, strict=False):
        scale.load_state_dict(state)
    for scale in scales[len(saved) :]:
        logger.warning(
            "the checkpoint has no loss scale: this one starts at %g", scale.loss_scale
        )
