"""What needs PyTorch: a learner around any of its optimizers.

This package is the only place that imports torch.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "sweephand.torch needs PyTorch: pip install sweephand[torch]", name="torch"
    ) from error

from sweephand.torch.learner import Learner

__all__ = ["Learner"]
