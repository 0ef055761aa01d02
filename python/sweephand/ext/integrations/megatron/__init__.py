"""Inputs of Megatron-Core's training loop: data iterators, and `get_batch`."""

from sweephand.ext.integrations.megatron.batch import BATCH_KEYS, get_batch
from sweephand.ext.integrations.megatron.data_iterator import DataIterator
from sweephand.ext.integrations.megatron.place import Place
from sweephand.ext.integrations.megatron.scheduled import ScheduledIterator

__all__ = ["BATCH_KEYS", "DataIterator", "Place", "ScheduledIterator", "get_batch"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
