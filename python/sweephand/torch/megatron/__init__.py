"""Inputs of Megatron-Core's training loop: data iterators, and `get_batch`."""

from sweephand.torch.megatron.batch import BATCH_KEYS, get_batch
from sweephand.torch.megatron.data_iterator import DataIterator
from sweephand.torch.megatron.place import Place
from sweephand.torch.megatron.scheduled import ScheduledIterator

__all__ = ["BATCH_KEYS", "DataIterator", "Place", "ScheduledIterator", "get_batch"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
