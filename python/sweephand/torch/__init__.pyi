"""Where each public name is defined."""

from . import distributed as distributed
from . import megatron as megatron
from . import torchtitan as torchtitan
from . import transformers as transformers
from .loaders.data_loader import DataLoader as DataLoader
from .loaders.dataset import IterableDataset as IterableDataset
from .minibatch.attention import attention_mask as attention_mask
from .minibatch.attention import block_mask as block_mask
from .minibatch.attention import nested as nested
from .minibatch.tensor import to_tensor as to_tensor
from .minibatch.tensors import Tensors as Tensors
from .minibatch.tensors import tensors_of as tensors_of
from .train.bucketing import BucketingModule as BucketingModule
from .train.learner import TorchLearner as Learner

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
    "transformers",
]
