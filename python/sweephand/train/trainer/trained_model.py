"""Models with their learners, as a trainer sees them; that of torch is its twin."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self, SupportsFloat, TypeAlias

import numpy as np

from sweephand.errors import ArgumentTypeError, StateError, shown, some_of
from sweephand.minibatch.labels import LABELS
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.minibatch_data import MinibatchData
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.learners.arrays import Array, check_gradients, core_array
from sweephand.train.loss_scale.judgement import StepResult
from sweephand.train.loss_scale.optimizers import listed
from sweephand.train.loss_scale.step_guard import StepGuard
from sweephand.train.states import SavedArrays, capture_random_state, restore_random_state
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

    data: MinibatchData | None = None  # with a loss for each sample or cell; None: a sequence
    width: int | None = None  # columns of the cells; None: a loss for each sample


def find_losses(minibatch: Minibatch, shape: Shape, wanted: str) -> LossPlaces:
    """Return what losses of a shape are of, ``labels`` first, or raise ValueError."""
    size = math.prod(shape)
    if minibatch.num_sequences == 0 and size == 1:  # the sum over an empty share
        return LossPlaces()
    fitting = []
    for one, of, places in _places(minibatch):  # cells cost a mask: they are made in need only
        is_alike = size == max(shape, default=1) or shape[0] == one[0]
        if math.prod(one) == size and is_alike:
            return places
        fitting.append(f"{one} of {of}")
    found = "their sum" if size == 1 else f"an array of shape {shape}"
    raise ValueError(f"{wanted}, got {found}; shapes that fit are {', '.join(fitting[:5])}")


def _places(minibatch: Minibatch) -> Iterator[tuple[Shape, str, LossPlaces]]:
    """Yield the shapes that losses may have, what each is of, and its places."""
    yield (minibatch.num_sequences,), "its sequences", LossPlaces()
    for key in sorted(minibatch, key=lambda key: key != LABELS):
        data = minibatch[key]
        yield (data.num_samples,), f"the samples of {data.info.name!r}", LossPlaces(data)
        if not data.info.is_single:
            rows, columns, *_ = data.dense_shape
            for width in (columns, columns - 1):
                yield (rows, width), "its cells", LossPlaces(data, width)


def check_losses(minibatch: object, shape: Shape) -> None:
    """Raise ValueError if losses of a minibatch of a source have none of these shapes."""
    if isinstance(minibatch, Minibatch):
        wanted = "the criterion must return the sum of the loss as a tensor or a number, or "
        find_losses(minibatch, shape, wanted + "losses that make it up")


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


Data: TypeAlias = Mapping[Any, Any]  # a minibatch: its streams by name


class Outcome(NamedTuple):
    """The outcome of one step."""

    # Sums over the label samples of all workers; `float` waits for those of an accelerator.
    loss: SupportsFloat
    metric: SupportsFloat | None
    results: list[StepResult | None]  # for each learner; None without a guard
    # What the criterion returned for each part; `numpy.asarray` waits for an accelerator's.
    losses: Sequence[tuple[Data, Any]] = ()
    norms: PartNorms | None = None  # of the gradients of all parts, if they were asked for


WEIGHTS = "model.npz"  # the file of parameters
# Files of a checkpoint by name. Their content is known to the model that made them alone.
SavedFiles: TypeAlias = Mapping[str, Any]


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


NumpyLearner: TypeAlias = ArrayLearner | StepGuard[Any]

LEARNERS = "learners.npz"


class NumpyModel:
    """A model with NumPy learners, which may be in loss scales; there is one worker."""

    capture_random_state = staticmethod(capture_random_state)
    restore_random_state = staticmethod(restore_random_state)

    def __init__(
        self,
        model: object,
        criterion: Callable[[Any, Any], Any],
        learners: Sequence[NumpyLearner],
    ) -> None:
        self.workers = Workers()
        self.device: object = None
        self.guards = [one for one in learners if isinstance(one, StepGuard)]
        self.learners = [inner for one in learners for inner in _inner(one)]
        self._model = model
        self._criterion = criterion
        self._updaters = learners
        self._arrays = _parameters(model) or _learned(self.learners)
        check_coverage(
            {name: _place(array) for name, array in self._arrays.items()},
            [_place(a) for learner in self.learners for a in learner.parameters.values()],
        )
        names = {_place(array): name for name, array in self._arrays.items()}
        for learner in self.learners:
            learner.name_parameters([names[_place(a)] for a in learner.parameters.values()])

    def check_part_norms(self) -> None:
        """Do nothing: they can be measured."""

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
        losses: list[tuple[Data, Any]] = []
        squared: list[float] | None = [] if part_sizes and any(part_sizes) else None
        loss, metric, gradients = self._sum(parts, losses, squared)
        if not math.isfinite(loss) and not self.guards:
            raise FloatingPointError(f"the loss is {loss}")
        norms = None
        if part_sizes is not None:
            together = self._squared_norm(gradients) / num_samples**2
            norms = PartNorms.of_sums(squared or [0.0] * len(parts), part_sizes, together)
        for guard in self.guards:
            if guard.wants_loss:
                guard.observe(loss / num_samples)
        results: list[StepResult | None] = []
        for updater, share in self._shares(gradients):
            results.append(updater.update(share, num_samples, sweeps_ended))
        return Outcome(loss, metric, results, losses, norms)

    def evaluate(self, minibatch: Data) -> tuple[float, float | None]:
        """Return the sums of loss and metric, with the model's ``training``, if any, False."""
        model: Any = self._model
        training = getattr(model, "training", None)
        if has_mode := isinstance(training, bool):
            model.training = False
        try:
            loss, metric, _ = self._sum([minibatch])
        finally:
            for guard in self.guards:
                guard.discard()
            if has_mode:
                model.training = training
        return loss, metric

    def check_savable(self) -> None:
        """Do nothing: learners take only arrays that can be saved."""

    def capture(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return copies of parameters and learners."""
        files = {name: SavedArrays.of(some) for name, some in self.tensors().items()}
        return files, self.describe()

    def describe(self) -> dict[str, Any]:
        """Return all but arrays, as JSON can hold it."""
        states = [learner.state_dict() for learner in self.learners]
        for state in states:
            del state["arrays"]
        return {
            "learners": states,
            "loss_scales": [guard.state_dict() for guard in self.guards],
        }

    def tensors(self) -> dict[str, Any]:
        """Return copies of parameters and moments."""
        weights = {name: array.copy() for name, array in self._arrays.items()}
        return {WEIGHTS: weights, LEARNERS: self._learner_arrays()}

    def load(self, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Continue from the results of `tensors` and `describe`."""
        files = {name: SavedArrays.of(tensors[name]) for name in (WEIGHTS, LEARNERS)}
        self.check(files, state)
        self.restore(files, state)

    def read(self, folder: Path) -> dict[str, Any]:
        """Return the files of a checkpoint."""
        return {name: SavedArrays.read(folder / name) for name in (WEIGHTS, LEARNERS)}

    def check(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        """Raise if a checkpoint is of another model or other learners."""
        mine = [type(learner).__name__ for learner in self.learners]
        theirs = [one["learner"] for one in state["learners"]]
        if mine != theirs:
            raise StateError(f"the checkpoint is of the learners {theirs}, here are {mine}")
        check_scales(self.guards, state["loss_scales"])
        files[WEIGHTS].check("model", SavedArrays.of(self._arrays))
        files[LEARNERS].check("learner", SavedArrays.of(self._learner_arrays()))

    def keep_hyperparameters(self, files: SavedFiles, state: dict[str, Any]) -> None:
        """Put the present hyperparameters into a state that was read."""
        for learner, one in zip(self.learners, state["learners"], strict=True):
            learner.keep_hyperparameters(one)

    def restore(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        """Continue from a captured state."""
        for name, array in files[WEIGHTS].arrays.items():
            mine = self._arrays[name]
            mine[...] = array.view(mine.dtype)
        saved = files[LEARNERS].arrays
        for i, learner in enumerate(self.learners):
            prefix = f"{i}/"
            arrays = {
                name.removeprefix(prefix): array
                for name, array in saved.items()
                if name.startswith(prefix)
            }
            learner.load_state_dict(state["learners"][i] | {"arrays": arrays})
        restore_scales(self.guards, state["loss_scales"])

    def _sum(
        self,
        parts: Sequence[Data],
        losses: list[tuple[Data, Any]] | None = None,
        squared: list[float] | None = None,
    ) -> tuple[float, float | None, list[Array | None]]:
        """Return the sums of loss, metric and gradients over all parts.

        The losses of each part are appended, and the squared norm of its gradients.
        """
        for guard in self.guards:
            guard.discard()
        loss, metric, sums = 0.0, None, None
        with ExitStack() as stack:
            if len(parts) > 1:
                for guard in self.guards:
                    stack.enter_context(guard.accumulate())
            for part in parts:
                part_losses, part_metric, gradients = self._call(part)
                loss += _total(part, part_losses)
                if losses is not None:
                    losses.append((part, part_losses))
                if squared is not None:
                    squared.append(self._squared_norm(gradients))
                if part_metric is not None:
                    metric = part_metric + (metric or 0.0)
                sums = gradients if sums is None else [*map(_add, sums, gradients)]
        assert sums is not None  # there is at least one part
        return loss, metric, sums

    def _call(self, minibatch: Data) -> tuple[Any, float | None, list[Array | None]]:
        found = self._criterion(self._model, minibatch)
        if not isinstance(found, tuple | list) or len(found) not in (2, 3):
            raise ValueError(
                "the criterion of NumPy learners must return (loss sum, gradient sums) or "
                f"(loss sum, metric sum, gradient sums), got {found!r:.100}"
            )
        gradients = list(found[-1])
        wanted = sum(len(learner.parameters) for learner in self.learners)
        if len(gradients) != wanted:
            raise ValueError(
                f"the criterion must return a gradient sum or None for each of the {wanted} "
                f"parameters of the learners, got {len(gradients)}"
            )
        return found[0], float(found[1]) if len(found) == 3 else None, gradients

    def _squared_norm(self, gradients: Sequence[Array | None]) -> float:
        """Return the squared norm of gradients without the loss scale."""
        norm = 0.0
        for updater, share in self._shares(gradients):
            names = [f"gradient {i}" for i, one in enumerate(share) if one is not None]
            given = [one for one in share if one is not None]
            arrays = [*map(core_array, given, names)]
            scale = updater.loss_scale if isinstance(updater, StepGuard) else 1.0
            found = check_gradients(names, arrays, scale, in_place=False)
            norm += float(np.square(found.norms).sum())
        return norm

    def _shares(
        self, gradients: Sequence[Array | None]
    ) -> Iterator[tuple[NumpyLearner, Sequence[Array | None]]]:
        """Yield each learner or loss scale with its part of the gradients."""
        begin = 0
        for updater in self._updaters:
            end = begin + sum(len(learner.parameters) for learner in _inner(updater))
            yield updater, gradients[begin:end]
            begin = end

    def _learner_arrays(self) -> dict[str, Array]:
        return _by_learner([learner.state_dict()["arrays"] for learner in self.learners])


def _total(minibatch: Data, losses: Any) -> float:
    """Return the sum of losses, or the sum that a criterion has returned."""
    if getattr(losses, "ndim", 0) == 0:
        return float(losses)
    if np.size(losses) != 1:
        check_losses(minibatch, np.shape(losses))
    return float(np.sum(losses, dtype=np.float64))


def _inner(updater: NumpyLearner) -> list[ArrayLearner]:
    """Return the learners that are updated together."""
    inner = updater.inner_optimizer if isinstance(updater, StepGuard) else updater
    learners = [one for one in listed(inner) if isinstance(one, ArrayLearner)]
    if not learners:
        raise ArgumentTypeError(
            f"the learners of arrays must be of sweephand.numpy, got {shown(updater)}; "
            "optimizers of torch are for a torch.nn.Module as the model"
        )
    return learners


def _parameters(model: object) -> dict[str, Array]:
    """Return the parameters of a model by name; none if it has no names."""
    found = model if isinstance(model, Mapping) else getattr(model, "parameters", None)
    if not isinstance(found, Mapping) and callable(found):
        found = found()
    return dict(found) if isinstance(found, Mapping) else {}


def _learned(learners: Sequence[ArrayLearner]) -> dict[str, Array]:
    """Return the parameters of learners by name; of several, after the learner's number."""
    if len(learners) == 1:
        return dict(learners[0].parameters)
    return _by_learner([learner.parameters for learner in learners])


def _by_learner(arrays: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    return {
        f"{i}/{name}": array for i, some in enumerate(arrays) for name, array in some.items()
    }


def _place(array: Array) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes


def _add(sum_so_far: Array | None, gradient: Array | None) -> Array | None:
    """Add gradients, in float32 at least."""
    if sum_so_far is None or gradient is None:
        return gradient if sum_so_far is None else sum_so_far
    dtype = np.result_type(np.float32, sum_so_far, gradient)
    return np.add(sum_so_far, gradient, dtype=dtype)
