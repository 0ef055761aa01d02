"""How many samples a session requests for a minibatch, and where training ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sweephand.errors import ArgumentTypeError
from sweephand.source.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT
from sweephand.source.schedules.schedule import Schedule, StepSchedule
from sweephand.source.schedules.spec import Spec, minibatch_size_schedule
from sweephand.train.session.training_run import TrainingRun


@dataclass(frozen=True)
class SizeRequest:
    """The number of samples to request next, and where training ends.

    Sizes are looked up at the label samples seen; `max_samples` are label samples in all, or
    ``FULL_DATA_SWEEP``; minibatches end at multiples of `cut` label samples.
    """

    sizes: StepSchedule[int]
    max_samples: int
    cut: int | None

    def has_enough(self, run: TrainingRun) -> bool:
        """Return True if training has seen all the samples it should."""
        if self.max_samples == FULL_DATA_SWEEP:
            return run.count("sweep") > 0
        return run.count("sample") >= self.max_samples

    def size(self, run: TrainingRun) -> int:
        """Return how many samples to request for the next minibatch."""
        seen = run.count("sample")
        size = run.size or self.sizes.at(seen, run.count("sweep"))
        if self.max_samples == FULL_DATA_SWEEP:
            sweep = run.source.num_samples_per_sweep
            size = min(size, sweep - run.source.current_position % sweep)
        else:
            size = _up_to(run, self.max_samples - seen, size)
        return size if self.cut is None else _up_to(run, self.cut - seen % self.cut, size)

    def leaves_data(self, run: TrainingRun) -> bool:
        """Return True if a finite source has data beyond the one sweep that was asked for."""
        return (
            self.max_samples == FULL_DATA_SWEEP
            and not run.source.is_infinite
            and next(run.source.plan(1), None) is not None
        )


def session_sizes(mb_size: Spec[int] | Schedule[int], epoch_size: int) -> StepSchedule[int]:
    """Return a schedule of minibatch sizes; lists and texts count the session's epochs.

    ValueError is raised if there are several sizes, and one epoch is all.
    """
    if isinstance(mb_size, StepSchedule):
        return mb_size
    if isinstance(mb_size, Schedule):
        raise ArgumentTypeError(f"mb_size must give sizes in samples, got {mb_size}")
    schedule = minibatch_size_schedule(mb_size)
    if len(schedule.steps) == 1:
        return schedule
    if epoch_size == INFINITELY_REPEAT:
        raise ValueError(
            f"mb_size={mb_size!r} has a size for each epoch, but with "
            "epoch_size=INFINITELY_REPEAT there is only one: give epoch_size, or "
            "minibatch_size_schedule(..., epoch_size)"
        )
    return replace(schedule, epoch_size=None if epoch_size == FULL_DATA_SWEEP else epoch_size)


def _up_to(run: TrainingRun, num_labels: int, size: int) -> int:
    """Return the size of a minibatch with at most that many label samples.

    With one label a sequence the plan has the number; else there is about one a sample.
    """
    if size <= num_labels or not run.has_label_per_sequence:
        return min(size, num_labels)
    planned = next(run.source.plan(size), None)
    if planned is None or planned.shape is not None:
        return num_labels
    return (
        size if planned.num_sequences <= num_labels else int(planned.sizes[:num_labels].sum())
    )
