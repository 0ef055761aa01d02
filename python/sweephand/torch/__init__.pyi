"""Where each public name is defined."""

from . import distributed, megatron, torchtitan
from .loaders.data_loader import DataLoader
from .loaders.dataset import IterableDataset
from .minibatch.attention import attention_mask, block_mask, nested
from .minibatch.tensors import Tensors, tensors_of, to_tensor
from .train.bucketing import BucketingModule
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
]
