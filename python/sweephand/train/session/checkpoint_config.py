"""The settings for saving and restoring in a training session."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias

from sweephand.base.checks import check_flag, check_int
from sweephand.errors import ArgumentTypeError
from sweephand.train.arguments import check_path
from sweephand.train.learners.hyperparameters import Restored, check_restored
from sweephand.train.session.frequency import Frequency, FrequencySpec

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
        The checkpoint to begin with. "auto": the newest whole one, or none, with a message. If
        events were added to the source since, the newest one before the changed time; later
        ones are passed over with a message, and count as the oldest. True: the newest one, and
        an error if there is none. A path: that one. False: none. A run that resumes from the
        newest one is the same run; checkpoints of another run are never removed.
    preserve_all : bool
        Never remove a checkpoint.
    keep_last : int, optional
        Number of the newest checkpoints to keep; 1 unless ``preserve_all``. The one of the last
        accepted epoch is kept too.
    keep_every : int
        Keep also those whose number is a multiple of it; 0: none.
    hyperparameters : {"checkpoint", "given"}
        Which hold after a restore: those of the checkpoint, with a warning for each that
        differs, or those that the learners were given: rates, which count from the start of
        training if they differ, momenta, ``weight_decay`` and all else of optimizers.
    asynchronous : bool
        Train on while a checkpoint is written.

    Raises
    ------
    ValueError
        If there is a frequency or a checkpoint to restore, but no folder; or if settings
        contradict each other.

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
    keep_every: int = 0
    hyperparameters: Restored = "checkpoint"
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
        check_restored(self.hyperparameters)
        check_flag("preserve_all", self.preserve_all)
        check_flag("asynchronous", self.asynchronous)
