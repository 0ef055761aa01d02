"""Minibatches that grow at the ends of epochs, by trials."""

from sweephand.source.schedules.schedule import StepSchedule
from sweephand.train.session.activity import NEVER, Activity
from sweephand.train.session.frequency import Frequency
from sweephand.train.session.minibatch_scaling import MinibatchScaling
from sweephand.train.session.rate_control import check_steerable
from sweephand.train.session.training_run import TrainingRun
from sweephand.train.session.trials import trial_loss, trial_noise_scale


class MinibatchGrowth(Activity):
    """Choose the size of minibatches for the next epochs.

    Parameters
    ----------
    run : TrainingRun
    scaling : MinibatchScaling or None
    sizes : Schedule of int
        The sizes before any choice.

    Raises
    ------
    ValueError
        If rates are set by others, or would change their meaning with the size.
    """

    name = "scaling"

    def __init__(
        self, run: TrainingRun, scaling: MinibatchScaling | None, sizes: StepSchedule[int]
    ) -> None:
        often = NEVER if scaling is None else Frequency(scaling.frequency, "epoch")
        super().__init__(run.count, often)
        self._run = run
        self._sizes = sizes
        self._scaling = scaling or MinibatchScaling()
        if scaling is not None:
            check_steerable(run.trainer)
            if any(one.pace.reference_size is None for one in run.trainer.model.learners):
                raise ValueError(
                    "minibatch scaling needs learning rates with a reference size: those of a "
                    "minibatch of any size would change their meaning with it"
                )

    def act(self) -> None:
        """Choose a size, once the schedule of sizes has come to its last."""
        run = self._run
        position = run.count("sample"), run.count("sweep")
        if self._sizes.is_last_at(*position):
            scheduled = self._sizes.at(*position)
            present = run.size or scheduled
            run.size = self._chosen(scheduled, present)
            if run.size != present:
                run.trainer.report("change", {"minibatch_size": run.size})
        self.done()

    def _chosen(self, scheduled: int, present: int) -> int:
        run, scaling = self._run, self._scaling
        trials = scaling.trial_minibatches
        if scaling.rule == "noise scale":
            return scaling.grow(present, trial_noise_scale(run, present, trials))
        sizes = scaling.trial_sizes(scheduled, present, run.rate / run.first_rate)
        return scaling.search(sizes, present, lambda size: trial_loss(run, size, trials))
