"""Minibatches as tensors, and generators of random numbers that maps draw from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator as Generator

from sweephand.corpus.streams import name_of

if TYPE_CHECKING:
    from sweephand.minibatch.minibatch_data import MinibatchData


def to_tensor(
    array: NDArray[Any], device: object = None, non_blocking: bool = False
) -> torch.Tensor:
    """Return an array as a tensor; bfloat16 is that of `ml_dtypes`.

    Parameters
    ----------
    array : ndarray
        Of any dtype that torch has; TypeError is raised for others.
    device : torch.device or str, optional
        The device of the tensor. On a CPU, the default, it shares the array's memory.
    non_blocking : bool
        For a CUDA device: return before the copy, from pinned memory, has ended.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> array = np.arange(3)
    >>> tensor = sh.torch.to_tensor(array)  # the same memory
    >>> array[0] = 7
    >>> tensor
    tensor([7, 1, 2])
    """
    if array.dtype.name == "bfloat16":
        tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    if device is None:
        return tensor
    target = torch.device(device)  # type: ignore[call-overload]
    if target.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(target, non_blocking=non_blocking)


class Tensors(dict[str, torch.Tensor]):
    """The tensors of a minibatch by name: a dict that moves to a device as a whole.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> minibatch = sh.MinibatchSource({"x": np.zeros((2, 3))}).next_minibatch(2)
    >>> tensors = minibatch.torch()
    >>> type(tensors).__name__, tensors.to("cpu")["x"].shape
    ('Tensors', torch.Size([2, 3]))
    """

    def to(self, device: object, non_blocking: bool = False) -> Tensors:
        """Return the tensors on a device, perhaps before copies from pinned memory end."""
        return Tensors(
            (name, tensor.to(device, non_blocking=non_blocking))  # type: ignore[call-overload]
            for name, tensor in self.items()
        )


def tensors_of(
    minibatch: Mapping[Any, MinibatchData], device: object = None, non_blocking: bool = False
) -> Tensors:
    """Return the streams of a minibatch as tensors, on a device as by `to_tensor`.

    Returns
    -------
    Tensors
        For every stream its name: (sequences, *sample shape) where every sequence of the corpus
        has one sample. Other dense streams have values of shape (samples, *sample shape), and
        ``<name>_offsets``, int64 of shape (sequences + 1,). In a padded layout the name has
        shape (sequences, width, *sample shape), and ``<name>_mask`` marks the cells with data.
        Sparse streams become dense. Packed rows, and padded ones with parts, also have
        ``segment_ids`` and ``position_ids``, unless streams have these names.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"tokens": [np.arange(2), np.arange(1)]})
    >>> sh.torch.tensors_of(sh.MinibatchSource(corpus, randomize=False).next_minibatch(3))
    {'tokens': tensor([0, 1, 0]), 'tokens_offsets': tensor([0, 2, 3])}
    """
    arrays: dict[str, NDArray[Any]] = {}
    for key, data in minibatch.items():
        name = name_of(key)
        padded = data.is_sparse or data.is_padded
        if data.info.is_single:
            arrays[name] = data.asarray() if data.is_sparse else data.exported
        elif padded:
            arrays[name], arrays[f"{name}_mask"] = data.asarray(), data.mask
        else:
            arrays[name], arrays[f"{name}_offsets"] = data.exported, data.offsets
    if hasattr(minibatch, "segment_ids") and hasattr(minibatch, "position_ids"):
        arrays.setdefault("segment_ids", minibatch.segment_ids)
        arrays.setdefault("position_ids", minibatch.position_ids)
    return Tensors(
        (name, to_tensor(array, device, non_blocking)) for name, array in arrays.items()
    )


def generator_of(seed: int, device: str) -> Generator:
    """Return a generator with a seed, in [0, 2^63)."""
    return Generator(device).manual_seed(seed)
