"""Arrays as tensors: shared on a CPU, through pinned memory to a CUDA device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def to_tensor(
    array: NDArray[Any], device: object = None, non_blocking: bool = False
) -> torch.Tensor:
    """Return an array as a tensor.

    Parameters
    ----------
    array : ndarray
        Of any dtype that torch has; bfloat16 by `ml_dtypes`.
    device : torch.device or str, optional
        The device of the tensor. On a CPU, the default, it shares the array's memory.
    non_blocking : bool
        For a CUDA device: return before the copy has ended. It comes from pinned memory, which
        torch keeps until then.

    Raises
    ------
    TypeError
        If torch has no such dtype.

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
