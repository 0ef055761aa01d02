"""The interface of a model and its learners to the trainer."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, SupportsFloat, TypeAlias

from sweephand.train.checkpoint.checkpoint_file import SavedFile
from sweephand.train.learners.learner import Learner
from sweephand.train.loss_scale.step_guard import StepGuard
from sweephand.train.loss_scale.step_result import StepResult
from sweephand.train.trainer.part_norms import PartNorms
from sweephand.train.trainer.workers import Workers

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
        """Take one step with the gradients of all parts together.

        The parts are this worker's share of the minibatch, cut into sub-minibatches; the label
        samples, at least 1, are those of all parts of all workers. If the loss is not finite
        and there is no loss scale, FloatingPointError is raised and nothing is changed; on an
        accelerator the loss is not known so early, and nothing is raised. If the label samples
        of each part are given, the norms of their gradients are measured.
        """

    def evaluate(self, minibatch: Data) -> tuple[float, float | None]:
        """Return the sums of loss and metric over all workers, in evaluation mode."""

    def squared_norms(
        self, minibatches: Iterable[tuple[Data, int]]
    ) -> tuple[list[float], float]:
        """Return the squared norms of mean gradients over all workers.

        Minibatches come with their label samples over all workers. The first norms are those of
        each minibatch, the last one is that of all of them together.
        """

    def check_savable(self) -> None:
        """Raise TypeError if `capture` cannot save the model."""

    def parameters(self) -> SavedFile:
        """Return the file of parameters that `capture` makes; all processes ask for it."""

    def capture(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return copies of all that is learned: `SavedFile` by name, and the part in JSON."""

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
        """Put the present hyperparameters into a state that was read, in place of its own."""

    def restore(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        """Continue from a captured state, which stays unchanged."""

    def capture_random_state(self) -> dict[str, Any]:
        """Return the states of all global random generators, as JSON can hold them."""

    def restore_random_state(self, state: Mapping[str, Any]) -> None:
        """Set all global random generators."""
