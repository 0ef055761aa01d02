"""The place of a rank in the data, as Megatron's ``parallel_state`` has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

__all__ = ["Place"]


class ParallelState(Protocol):
    """The used part of ``megatron.core.parallel_state``."""

    def get_data_parallel_world_size(self) -> int:
        """Return how many ranks have data of their own."""

    def get_data_parallel_rank(self) -> int:
        """Return which of them this is."""

    def get_context_parallel_world_size(self) -> int:
        """Return over how many ranks a sequence is split."""

    def get_context_parallel_rank(self) -> int:
        """Return which of them this is."""

    def is_pipeline_first_stage(self, ignore_virtual: bool, vp_stage: int | None) -> bool:
        """Return True if this stage has the embedding."""

    def is_pipeline_last_stage(self, ignore_virtual: bool, vp_stage: int | None) -> bool:
        """Return True if this stage has the loss."""


@dataclass(frozen=True)
class Place:
    """Place of a rank in the data; its tensor-parallel peers are alike.

    Parameters
    ----------
    dp_world_size, dp_rank : int
        The ranks that have data of their own, without those of context parallelism.
    cp_world_size, cp_rank : int
        The ranks that share each sequence.
    is_first_stage, is_last_stage : bool
        Of the pipeline: the first needs tokens, the last labels. Where a stage predicts several
        tokens (MTP), both are True.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.torch.megatron.Place(dp_world_size=4, dp_rank=1, is_last_stage=False).is_middle_stage
    False
    """

    dp_world_size: int = 1
    dp_rank: int = 0
    cp_world_size: int = 1
    cp_rank: int = 0
    is_first_stage: bool = True
    is_last_stage: bool = True

    @classmethod
    def of(cls, mpu: ParallelState, vp_stage: int | None = None) -> Self:
        """Return the place in ``megatron.core.parallel_state``."""
        return cls(
            mpu.get_data_parallel_world_size(),
            mpu.get_data_parallel_rank(),
            mpu.get_context_parallel_world_size(),
            mpu.get_context_parallel_rank(),
            mpu.is_pipeline_first_stage(False, vp_stage),
            mpu.is_pipeline_last_stage(False, vp_stage),
        )

    @property
    def is_middle_stage(self) -> bool:
        """True if neither tokens nor labels are wanted here."""
        return not (self.is_first_stage or self.is_last_stage)

    @property
    def dp_cp_world_size(self) -> int:
        """Ranks of data and context parallelism together."""
        return self.dp_world_size * self.cp_world_size

    @property
    def dp_cp_rank(self) -> int:
        """Which of them this is; those of one context are neighbours."""
        return self.dp_rank * self.cp_world_size + self.cp_rank
