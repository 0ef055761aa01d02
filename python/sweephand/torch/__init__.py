"""What needs PyTorch: tensors, a data set for its loaders, a learner around its optimizers.

This package is the only place that imports torch.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "sweephand.torch needs PyTorch: pip install sweephand[torch]", name="torch"
    ) from error

from sweephand.torch.dataset import IterableDataset, tensors_of
from sweephand.torch.learner import Learner
from sweephand.torch.tensors import to_tensor

__all__ = ["IterableDataset", "Learner", "tensors_of", "to_tensor"]
