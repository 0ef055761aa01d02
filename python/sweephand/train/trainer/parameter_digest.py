"""The digest of a model's parameters, by which runs are compared to the bit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sweephand.errors import shown
from sweephand.train.checkpoint.checkpoint_store import find
from sweephand.train.checkpoint.safetensors_file import HashingSink, SavedFile, SavedTensors
from sweephand.train.trainer.numpy_model import WEIGHTS
from sweephand.train.trainer.trainer import Trainer


def parameter_digest(model: Trainer | Mapping[str, Any] | str | PathLike[str]) -> str:
    """Return the SHA-256 of the parameters of a model, as a checkpoint holds them.

    It is that of the bytes of ``model.safetensors``, so that ``sha256sum`` gives the same of a
    checkpoint. Names, dtypes, shapes and all bits count; steps, learners and generators do not.
    For sharded models all processes must call it.

    Parameters
    ----------
    model : Trainer, mapping or path
        A trainer; arrays of NumPy or tensors of torch by name, such as ``module.state_dict()``;
        a checkpoint, or a folder of checkpoints, of which the newest is taken.

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint.
    StateError
        If it is damaged, or has no such file.
    TypeError
        If it is anything else.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> one, other = np.zeros(2, np.float32), np.array([0.0, -0.0], np.float32)
    >>> sh.train.parameter_digest({"w": one}) == sh.train.parameter_digest({"w": other})
    False
    """
    if isinstance(model, str | PathLike):
        checkpoint = find(Path(model).expanduser())
        if checkpoint is None:
            raise FileNotFoundError(f"there is no checkpoint in {model}")
        return checkpoint.sha256(WEIGHTS)
    file: SavedFile
    if isinstance(model, Mapping):
        file = file_of_tensors(model)
    elif isinstance(model, Trainer):
        model.await_step()
        file = model.model.parameters()
    else:
        raise TypeError(
            "parameter_digest takes a trainer, arrays or tensors by name, or the path of a "
            f"checkpoint, got {shown(model)}"
        )
    digest = hashlib.sha256()
    file.write(HashingSink(digest))
    return digest.hexdigest()


def file_of_tensors(parameters: Mapping[str, Any]) -> SavedTensors:
    """Return arrays, or tensors of torch, as ``model.safetensors`` holds them."""
    if any(hasattr(one, "detach") for one in parameters.values()):
        from sweephand.torch.train.saved_state import save_tensors

        return save_tensors(parameters)
    return SavedTensors.of_arrays(
        {name: np.asarray(array) for name, array in parameters.items()}
    )
