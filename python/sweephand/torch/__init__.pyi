"""Where each public name is defined."""

from sweephand.ext.integrations import megatron as megatron
from sweephand.ext.integrations import torchtitan as torchtitan
from sweephand.ext.integrations import transformers as transformers
from sweephand.ext.integrations.bucketing import BucketingModule as BucketingModule

from . import distributed as distributed
from .attention import attention_mask as attention_mask
from .attention import block_mask as block_mask
from .dataset import DataLoader as DataLoader
from .dataset import IterableDataset as IterableDataset
from .exact_masters import ExactMasters as ExactMasters
from .learner import TorchLearner as Learner
from .tensors import Tensors as Tensors
from .tensors import tensors_of as tensors_of
from .tensors import to_tensor as to_tensor

__all__ = [
    "BucketingModule",
    "DataLoader",
    "ExactMasters",
    "IterableDataset",
    "Learner",
    "Tensors",
    "attention_mask",
    "block_mask",
    "distributed",
    "megatron",
    "tensors_of",
    "to_tensor",
    "torchtitan",
    "transformers",
]
