"""PyTorch: tensors and masks, loaders, learners, buckets, many processes.

This package is the only place that imports torch.
"""

from sweephand.base.public_names import attach_names

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "sweephand.torch needs PyTorch: pip install sweephand[torch]", name="torch"
    ) from error

# The public names are those of ``__init__.pyi``; a minibatch that becomes tensors imports only
# the file that makes them.
_find, __dir__, __all__ = attach_names(__name__, __file__)


def __getattr__(name: str) -> object:
    """Return a public name."""
    if name not in __all__:
        from sweephand.base.other_names import no_such_name

        raise no_such_name(__name__, name, __all__)
    return _find(name)
