"""The settings of a training session, checked."""

from sweephand.checks import check_int
from sweephand.dataclass import dataclass
from sweephand.source.schedules.schedule import Schedule
from sweephand.source.schedules.spec import Spec
from sweephand.train.arguments import check_kind
from sweephand.train.session.checkpoint_config import CheckpointConfig
from sweephand.train.session.critical_batch_size import CriticalBatchSize
from sweephand.train.session.evaluation_configs import CrossValidationConfig, TestConfig
from sweephand.train.session.frequency import Frequency, FrequencySpec
from sweephand.train.session.learning_rate_control import LearningRateControl
from sweephand.train.session.minibatch_scaling import MinibatchScaling
from sweephand.train.session.minibatch_size import SizeRequest, session_sizes
from sweephand.train.spikes.spike_policy import SpikePolicy


@dataclass(frozen=True)
class SessionSettings:
    """The settings of a session; see `TrainingSession`."""

    mb_size: Spec[int] | Schedule[int]
    max_samples: int
    epoch_size: int
    progress_frequency: FrequencySpec
    checkpoint_config: CheckpointConfig | None
    cv_config: CrossValidationConfig | None
    lr_control: LearningRateControl | None
    mb_scaling: MinibatchScaling | None
    critical_batch_size: CriticalBatchSize | None
    spike_policy: SpikePolicy | None
    test_config: TestConfig | None
    cut_minibatch_at: int | None

    def __post_init__(self) -> None:
        kinds: dict[str, type] = {
            "checkpoint_config": CheckpointConfig,
            "cv_config": CrossValidationConfig,
            "lr_control": LearningRateControl,
            "mb_scaling": MinibatchScaling,
            "critical_batch_size": CriticalBatchSize,
            "spike_policy": SpikePolicy,
            "test_config": TestConfig,
        }
        for name, kind in kinds.items():
            check_kind(name, getattr(self, name), kind, optional=True)

    def request(self) -> SizeRequest:
        """Return the sizes of requested minibatches, and the end of training."""
        cut = self.cut_minibatch_at
        return SizeRequest(
            session_sizes(self.mb_size, check_int("epoch_size", self.epoch_size)),
            check_int("max_samples", self.max_samples),
            None if cut is None else check_int("cut_minibatch_at", cut),
        )

    def epoch(self) -> Frequency:
        """Return how often an epoch ends."""
        return Frequency.parse("epoch_size", self.epoch_size)

    @property
    def saves(self) -> bool:
        """True if there are checkpoints."""
        return (
            self.checkpoint_config is not None and self.checkpoint_config.filename is not None
        )
