"""The trainer: it turns each minibatch into a step of the model."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from sweephand.base.checks import check_choice, check_int, check_kind, check_path
from sweephand.base.other_names import answers_other_names
from sweephand.corpus.streams import StreamInfo, name_of
from sweephand.errors import ArgumentTypeError, LossScaleError, StateError, shown
from sweephand.minibatch.minibatch import Minibatch
from sweephand.run.writing import of_json, to_json
from sweephand.train.checkpoint import (
    Checkpoint,
    CheckpointStore,
    FolderLock,
    Snapshot,
    Stateful,
    capture_states,
    check_json,
    find,
    restore_states,
)
from sweephand.train.learners.learner import Clock, Clocks, Restored
from sweephand.train.records import Figures, Observer, RecordKind, Step, StepReporter
from sweephand.train.states import check_keys, decode, reading
from sweephand.train.trainer.trained_model import (
    Data,
    NumpyLearner,
    NumpyModel,
    Outcome,
)
from sweephand.train.trainer.workers import on_first

DEFAULT_LABEL_STREAM = "labels"
logger = logging.getLogger("sweephand")


if TYPE_CHECKING:
    from sweephand.torch.learner import TorchLearner
    from sweephand.torch.model import TorchModel

    AnyLearner: TypeAlias = NumpyLearner | TorchLearner


class Trainer:
    """Training of a model by minibatches.

    The criterion returns *sums* over the label samples of its minibatch, whose number the
    trainer knows for the whole step, over all workers and sub-minibatches, before the first
    backward. So the learners get the mean gradient of the whole step. A worker that fails ends
    the step of all by the same error, and one that is silent for nine minutes by a
    `sweephand.torch.distributed.WorkerError`.

    Parameters
    ----------
    model : torch.nn.Module, or any object
        With NumPy learners its parameters are those of a mapping from name to array, or of its
        attribute or method ``parameters``, which gives such a mapping; else the learners'. With
        several workers of ``torch.distributed`` it is in a ``DistributedDataParallel`` or under
        ``fully_shard``.
    criterion : callable
        ``criterion(model, minibatch)`` returns the sum of the loss over the label samples, or
        its terms in any form of `LossLedger.record`; or (loss sum, metric sum). With NumPy
        learners the list of gradient sums, in the order of the learners' parameters, comes
        last; under a loss scale they carry it, by way of ``get_scaled_loss``.
    learners : learner, or list of them
        Of `sweephand.torch` or `sweephand.numpy`, the latter also in a `LossScaleOptimizer`.
        Together they have every trainable parameter, each once.
    progress_writers : ProgressWriter or other observer, or list of them
    label_stream : str or StreamInfo
        Its samples are counted. Where a minibatch has no stream ``labels``, the default,
        ``minibatch.num_label_samples`` is: the next tokens of the size-defining stream, or all
        its samples if it holds no tokens.
    sub_minibatches : int
        Number of parts of a minibatch that are computed in turn, to save memory.
    stateful : mapping from name to object, optional
        Objects to save and restore with every checkpoint: generators of NumPy,
        and objects with ``state_dict`` and ``load_state_dict`` whose state JSON can hold.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"labels": np.float32([1, 2, 3, 4])})
    >>> model = {"mean": np.zeros(1, np.float32)}
    >>> def squared_error(model, minibatch):
    ...     error = model["mean"] - minibatch["labels"].values
    ...     return float(error @ error), [2 * error.sum(keepdims=True)]
    >>> trainer = sh.Trainer(model, squared_error, sh.numpy.SGD(model, 0.5))
    >>> trainer.train_minibatch(sh.MinibatchSource(corpus).next_minibatch(4))
    True
    >>> model["mean"], trainer.previous_minibatch_loss_average
    (array([2.5], dtype=float32), 7.5)
    """

    @answers_other_names
    def __init__(
        self,
        model: Any,
        criterion: Callable[[Any, Any], Any],
        learners: AnyLearner | Sequence[AnyLearner],
        progress_writers: Observer | Sequence[Observer] = (),
        label_stream: str | StreamInfo = DEFAULT_LABEL_STREAM,
        sub_minibatches: int = 1,
        *,
        stateful: Mapping[str, Stateful] | None = None,
    ) -> None:
        if not callable(criterion):
            raise ArgumentTypeError(
                "criterion must be a function of model and minibatch that returns the sum of "
                f"the loss, got {shown(criterion)}: Trainer(model, criterion, learners)"
            )
        trained = choose_model(model, criterion, _listed(learners))
        self.label_stream = label_stream
        self._num_parts = check_int("sub_minibatches", sub_minibatches)
        reporter = StepReporter(
            _listed(progress_writers), trained.workers, trained.learners, trained.guards
        )
        check_kind("stateful", stateful, Mapping, optional=True)
        for name, one in (stateful or {}).items():
            if not isinstance(one, Stateful):
                raise ArgumentTypeError(
                    f"stateful[{name!r}] must be a generator of NumPy or have state_dict and "
                    f"load_state_dict, got {shown(one)}"
                )
        self.model = trained
        self.reporter = reporter
        self._stateful = dict(stateful or {})
        self._clocks = Clocks()
        self._entered = 0.0  # when a step began
        self._left: float | None = None  # when the last one ended, unless time was spent since
        self._run_id = uuid4().hex  # of which its checkpoints are
        if any(one.part_norms_every for one in reporter.observers):
            if self._num_parts * trained.workers.num_partitions < 2:
                raise ValueError(
                    "norms of gradients are wanted of parts of a minibatch: give "
                    "sub_minibatches=2 or more, or several workers"
                )
            trained.check_part_norms()
        self._has_gradient_norms = False

    @property
    def consumed(self) -> Clock:
        """Steps, label samples and ended sweeps of all steps."""
        return self._clocks.consumed

    @property
    def applied(self) -> Clock:
        """Steps, label samples and ended sweeps of the steps that changed the parameters."""
        return self._clocks.applied

    @property
    def previous_minibatch_loss_average(self) -> float:
        """The loss per label sample of the last global minibatch."""
        last = self.reporter.last_step()
        return last.loss / last.num_samples

    @property
    def previous_minibatch_evaluation_average(self) -> float:
        """The metric per label sample of the last global minibatch, or ValueError."""
        last = self.reporter.last_step()
        if last.metric is None:
            raise ValueError("the criterion returns no metric")
        return last.metric / last.num_samples

    @property
    def previous_minibatch_sample_count(self) -> int:
        """Label samples of the last global minibatch."""
        return self.reporter.last_step().num_samples

    @property
    def total_number_of_samples_seen(self) -> int:
        """Label samples of all minibatches over all workers, skipped ones included."""
        return self.consumed.samples

    def train_minibatch(self, minibatch: Data, num_samples: int | None = None) -> bool:
        """Take one step with a minibatch, or this worker's share of it.

        A minibatch without any label sample changes nothing. A share without sequences takes
        part with weight 0.

        Parameters
        ----------
        minibatch : Minibatch, or mapping from stream name to data
        num_samples : int, optional
            Its label samples over all workers, if they are known.

        Returns
        -------
        bool
            False at the end of data: for a falsy minibatch.

        Raises
        ------
        FloatingPointError
            If the loss is not finite and there is no guard. The parameters are as they were
            before, but on an accelerator, where the next step is under way.
        LossScaleError
            If too many steps in a row were skipped.
        """
        if not minibatch:
            return False
        check_kind("minibatch", minibatch, Mapping)
        self._entered = time.perf_counter()
        if num_samples is None:
            num_samples = self.count_label_samples(minibatch)
        sweeps_ended = getattr(minibatch, "sweeps_ended", 0)
        if num_samples == 0:
            self._skip(sweeps_ended)
            self.reporter.stepped(minibatch, self.consumed.steps, 0, applied=False)
            return True
        self.reporter.report_changes(self.consumed)
        outcome = self._step(minibatch, num_samples, sweeps_ended)
        applied = all(result is None or result.applied for result in outcome.results)
        self._clocks.advance(num_samples, sweeps_ended, applied=applied)
        step, samples = self.consumed.steps, self.consumed.samples
        self.reporter.stepped(minibatch, step, num_samples, outcome, applied=applied)
        left, self._left = self._left, time.perf_counter()
        begin = self._entered if left is None else left
        seconds, waited = self._left - begin, self._entered - begin
        self.reporter.add(
            outcome, Step(step, samples, num_samples, math.nan, None, applied, seconds, waited)
        )
        return True

    def test_minibatch(self, minibatch: Data) -> float:
        """Return the average of the metric over a minibatch, or of the loss without a metric.

        The model is in evaluation mode meanwhile; nothing else changes.
        """
        check_kind("minibatch", minibatch, Mapping)
        num_samples = self.count_label_samples(minibatch)
        if not num_samples:
            raise ValueError("the minibatch has no label samples")
        loss, metric = self.model.evaluate(minibatch)
        return (loss if metric is None else metric) / num_samples

    def count_label_samples(self, minibatch: Data) -> int:
        """Return the label samples of a minibatch over all workers."""
        local = self.count_local_label_samples(minibatch)
        return self.model.workers.agree([local]).counts[0]

    def count_local_label_samples(self, minibatch: Data) -> int:
        """Return the label samples of this worker's share, or raise ValueError."""
        name = name_of(self.label_stream)
        labels = minibatch.get(self.label_stream)
        if labels is None:  # a plain dict does not know infos of streams
            labels = minibatch.get(name)
        if labels is None:
            found: int | None = getattr(minibatch, "num_label_samples", None)
            if found is not None and name == DEFAULT_LABEL_STREAM:
                return found
            raise ValueError(
                f"the minibatch has no label stream {name!r}, there are: "
                f"{', '.join(map(str, minibatch))}"
            )
        counted: int | None = getattr(labels, "num_samples", None)
        return len(labels) if counted is None else counted

    def report(self, kind: RecordKind, figures: Figures) -> bool:
        """Send a record to the progress writers; return True if any of them shows it."""
        return self.reporter.report(kind, self.consumed.steps, self.consumed.samples, figures)

    def measure_gradient_norms(self) -> None:
        """Measure the gradient norm of every step from now on, in `Step`, or raise ValueError.

        It costs a pass over the gradients, of which some process must have the whole.
        """
        self.model.check_part_norms()
        self._has_gradient_norms = True

    def pause(self) -> None:
        """Do not count the time until the next minibatch as waiting for data."""
        self._left = None

    @property
    def writers(self) -> list[Observer]:
        """The progress writers, ledgers and receipts that this worker reports to."""
        return self.reporter.observers

    def save_checkpoint(
        self, path: str | Path, external_state: dict[str, Any] | None = None
    ) -> None:
        """Save everything but the source's position, and return when it is durable.

        The path is that of a folder of checkpoints, of which older ones of this run are removed
        when the new one has been read back. The external state is any value that JSON can hold;
        `restore_from_checkpoint` returns it.

        OSError is raised if it cannot be written, or another run is saving there; older ones
        stay. TypeError if JSON cannot hold a state.
        """
        check_path("path", path)
        check_json("external_state", external_state)
        snapshot = self.capture()
        snapshot.state["external"] = external_state
        store = CheckpointStore(Path(path).expanduser(), run=self._run_id)

        def write() -> None:
            with FolderLock(store.folder):
                store.write(store.next_number(), snapshot.contents())

        on_first(self.model.workers, write)

    def restore_from_checkpoint(
        self, path: str | Path, *, hyperparameters: Restored = "checkpoint"
    ) -> Any:
        """Continue from a checkpoint, or the newest in a folder, and return its external state.

        For ``hyperparameters`` see `CheckpointConfig`. FileNotFoundError is raised if there is
        none, StateError if all are damaged, or it is of another model or other learners.
        """
        check_path("path", path)
        checkpoint = find(Path(path).expanduser())
        if checkpoint is None:
            raise FileNotFoundError(f"there is no checkpoint in {path}")
        snapshot = self.read(checkpoint, hyperparameters)
        self.restore(snapshot)
        if checkpoint.folder != Path(path).expanduser():
            self._run_id = checkpoint.run  # which goes on
        return snapshot.state.get("external")

    def read(
        self, checkpoint: Checkpoint, hyperparameters: Restored = "checkpoint"
    ) -> Snapshot:
        """Read a checkpoint, or raise StateError if it was not made of such a model."""
        check_choice("hyperparameters", hyperparameters, "checkpoint", "given")
        state = checkpoint.state()
        try:
            files = self.model.read(checkpoint.folder)
            if hyperparameters == "given":
                with reading("a trainer"):
                    self.model.check(files, state["model"])
                    self.model.keep_hyperparameters(files, state["model"])
            return Snapshot(files, state)
        except FileNotFoundError as error:
            raise StateError(
                f"{checkpoint.folder} is of another kind of model or other learners: it has no "
                f"{error.filename}"
            ) from error

    def state_dict(self) -> dict[str, Any]:
        """Return all but the source's position for ``torch.distributed.checkpoint``.

        Tensors are not copies, so that each rank saves its shards; the rest is a text of JSON,
        the same on all ranks.
        """
        self.reporter.settle()
        state = self._described(self.model.describe())
        return {**self.model.tensors(), "state": to_json(state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore such a state, saved by any number of ranks, or raise StateError."""
        check_keys("a trainer", state, ["state"])
        with reading("a trainer"):
            described = of_json(json.loads(state["state"]))
            self._restore(described, partial(self.model.load, state))

    def capture(self) -> Snapshot:
        """Return all that is needed to go on from here but the source's position."""
        self.reporter.settle()
        files, state = self.model.capture()
        return Snapshot(files, self._described(state))

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, or raise StateError if it is of another model or learners."""
        with reading("a trainer"):
            self.model.check(snapshot.files, snapshot.state["model"])
            self._restore(snapshot.state, partial(self.model.restore, snapshot.files))

    def _described(self, model: dict[str, Any]) -> dict[str, Any]:
        mine = self.model.capture_random_state(), self.reporter.state()
        gathered = self.model.workers.gather(mine)
        return {
            "trainer": asdict(self._clocks),
            "model": model,
            "stateful": capture_states(self._stateful),
            "random": [random for random, _ in gathered],
            "writers": gathered[0][1],
        }

    def _restore(
        self,
        state: Mapping[str, Any],
        restore_model: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.reporter.pending = None
        clocks: Clocks = decode(Clocks, state["trainer"], "trainer")
        restore_states(self._stateful, state["stateful"])
        restore_model(state["model"])
        index, random = self.model.workers.rank, state["random"]
        if index < len(random):
            self.model.restore_random_state(random[index])
        else:
            logger.warning(
                "the checkpoint has no random generators of worker %d: they go on", index
            )
        self._clocks = clocks
        self.reporter.restore(state.get("writers", []), clocks.consumed.steps)
        self._left = None

    @contextmanager
    def drawing_again(self, error: type[Exception]) -> Iterator[None]:
        """Restore random generators and stateful objects if an error of a kind occurs."""
        stateful = capture_states(self._stateful)
        random = self.model.capture_random_state()
        try:
            yield
        except error:
            restore_states(self._stateful, stateful)
            self.model.restore_random_state(random)
            raise

    def _step(self, minibatch: Data, num_samples: int, sweeps_ended: int) -> Outcome:
        # Several workers compute equally many parts, whatever the calls in them exchange.
        is_padded = self.model.workers.num_partitions > 1
        parts = split(minibatch, self._num_parts, is_padded=is_padded)
        try:
            with self.model.workers:  # a failure here alone ends all workers
                for one in self.reporter.observers:
                    one.begin(self.consumed.steps)
                return self.model.train(
                    parts, num_samples, sweeps_ended, self._part_sizes(parts)
                )
        except FloatingPointError as error:
            raise FloatingPointError(
                f"{error} in step {self.consumed.steps + 1}, {_place(minibatch)}; "
                "the parameters are as they were before"
            ) from error
        except LossScaleError as error:
            self._clocks.advance(num_samples, sweeps_ended, applied=False)
            steps = self.consumed.steps
            self.reporter.stepped(minibatch, steps, num_samples, applied=False)
            raise LossScaleError(
                f"{error}; {_place(minibatch)}",
                error.step,
                error.scale,
                error.cause,
                error.parameters,
                _ids(minibatch),
            ) from error

    def _part_sizes(self, parts: Sequence[Data]) -> list[int] | None:
        """Return label samples of each part if norms are measured, 0 if only the whole's."""
        if self.reporter.wants_part_norms(self.consumed.steps):
            return [self.count_local_label_samples(part) for part in parts]
        return [0] * len(parts) if self._has_gradient_norms else None

    def _skip(self, sweeps_ended: int) -> None:
        """Count a step without label samples."""
        for learner in self.model.learners:
            learner.skip(0, sweeps_ended)
        self._clocks.advance(0, sweeps_ended, applied=False)


def _listed(some: Any) -> list[Any]:
    return list(some) if isinstance(some, Sequence) else [some]


def _place(minibatch: Data) -> str:
    """Describe the place of a minibatch in the data."""
    time = getattr(minibatch, "nominal_time", None)
    if time is None:
        return "of a minibatch that tells no place"
    return f"minibatch at nominal time {time} of {', '.join(_ids(minibatch)[:5])}"


def _ids(minibatch: Data) -> tuple[str, ...]:
    return tuple(getattr(minibatch, "ids", ()))


def choose_model(
    model: Any, criterion: Callable[[Any, Any], Any], learners: Sequence[Any]
) -> NumpyModel | TorchModel:
    """Return the model with its learners, of torch or of NumPy."""
    if not learners:
        raise ValueError("a trainer needs at least one learner, got none")
    if "torch" not in sys.modules:  # then there can be no module of it
        return NumpyModel(model, criterion, learners)
    from sweephand.torch.model import TorchModel, is_module

    if not is_module(model):
        return NumpyModel(model, criterion, learners)
    return TorchModel(model, criterion, learners)


def split(
    minibatch: Mapping[Any, Any], num_parts: int, *, is_padded: bool = False
) -> Sequence[Mapping[Any, Any]]:
    """Cut a minibatch of a source into parts whose numbers of rows differ by at most one.

    There is no part without a row, but if padded at the end. Their arrays share the memory of
    the whole. TypeError is raised if it cannot be cut.
    """
    if num_parts == 1:
        return [minibatch]
    if not isinstance(minibatch, Minibatch):
        raise TypeError(
            f"only minibatches of a source can be cut, this is a {type(minibatch).__name__}"
        )
    if minibatch.layout.rows_go_on:
        raise TypeError(f"minibatches of the layout {minibatch.layout} cannot be cut")
    count = minibatch.num_rows
    filled = max(1, min(count, num_parts))
    borders = [i * count // filled for i in range(filled + 1)]
    if is_padded:
        borders += [count] * (num_parts - filled)
    return [minibatch.rows(begin, end) for begin, end in pairwise(borders)]
