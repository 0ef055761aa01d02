"""The place in the data in checkpoints of Hugging Face's trainers: transformers' and TRL's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["KeepPlace"]


class KeepPlace:
    """A callback that writes the place in the data into every checkpoint, and goes on there.

    The trainer's loader is a `sh.torch.DataLoader`, by ``get_train_dataloader``, and its
    arguments have ``ignore_data_skip=True``, as the loader is at that place already. It has the
    methods of a ``TrainerCallback`` without importing transformers.

    Examples
    --------
    >>> import sweephand as sh, sweephand.torch
    >>> keep = sh.torch.transformers.KeepPlace()  # transformers.Trainer(..., callbacks=[keep])
    """

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the place, once: it is the same on all ranks."""
        if args.should_save:
            place = json.dumps(kwargs["train_dataloader"].state_dict(), allow_nan=False)
            _path(args, state).write_text(place)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Go to the place, where training resumes."""
        if state.global_step:
            place = json.loads(_path(args, state).read_text())
            kwargs["train_dataloader"].load_state_dict(place)

    def __getattr__(self, name: str) -> Any:
        """Return a method that does nothing for each other event."""
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(f"KeepPlace has no attribute {name!r}")


def _path(args: Any, state: Any) -> Path:
    return Path(args.output_dir, f"checkpoint-{state.global_step}", "place.json")


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
