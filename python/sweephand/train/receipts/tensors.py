"""Parameters of any framework as the file of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sweephand.train.checkpoint.safetensors_file import tensor_of_array
from sweephand.train.checkpoint.saved_tensors import SavedTensors


def file_of_tensors(parameters: Mapping[str, Any]) -> SavedTensors:
    """Return arrays, or tensors of torch, as ``model.safetensors`` holds them."""
    if any(hasattr(one, "detach") for one in parameters.values()):
        from sweephand.torch.train.saved_state import save_tensors

        return save_tensors(parameters)
    return SavedTensors(
        {name: tensor_of_array(np.asarray(array)) for name, array in parameters.items()}
    )
