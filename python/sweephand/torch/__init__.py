"""What needs PyTorch: tensors and masks, loaders, learners, buckets, many processes.

This package is the only place that imports torch.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "sweephand.torch needs PyTorch: pip install sweephand[torch]", name="torch"
    ) from error

from sweephand.torch import distributed, megatron, torchtitan
from sweephand.torch.loaders.data_loader import DataLoader
from sweephand.torch.loaders.dataset import IterableDataset
from sweephand.torch.minibatch.attention import attention_mask, block_mask, nested
from sweephand.torch.minibatch.tensors import Tensors, tensors_of, to_tensor
from sweephand.torch.train.bucketing import BucketingModule
from sweephand.torch.train.learner import TorchLearner as Learner

__all__ = [
    "BucketingModule",
    "DataLoader",
    "IterableDataset",
    "Learner",
    "Tensors",
    "attention_mask",
    "block_mask",
    "distributed",
    "megatron",
    "nested",
    "tensors_of",
    "to_tensor",
    "torchtitan",
]


def __dir__() -> list[str]:
    """Return what is public."""
    return __all__
