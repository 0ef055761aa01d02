"""Loss scales of a checkpoint, restored into those of a trainer."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sweephand.errors import StateError
from sweephand.train.loss_scale.step_guard import StepGuard

logger = logging.getLogger("sweephand")


def check_scales(scales: Sequence[object], saved: Sequence[object]) -> None:
    """Refuse other loss scales than those saved; they may be new where none was saved."""
    if saved and len(saved) != len(scales):
        raise StateError(
            f"the checkpoint has {len(saved)} loss scales, here are {len(scales)}: a run with "
            "one goes on with one, LossScaleOptimizer(optimizer, dynamic=False, "
            "initial_scale=1) if it is not to scale any more"
        )


def restore_scales(
    scales: Sequence[StepGuard[Any]], saved: Sequence[Mapping[str, Any]]
) -> None:
    """Continue the loss scales that were saved; those that are new start afresh."""
    for scale, state in zip(scales, saved, strict=False):
        scale.load_state_dict(state)
    for scale in scales[len(saved) :]:
        logger.warning(
            "the checkpoint has no loss scale: this one starts at %g", scale.loss_scale
        )
