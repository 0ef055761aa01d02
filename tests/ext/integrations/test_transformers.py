"""The place in the data in checkpoints of Hugging Face's trainers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sweephand as sh

pytest.importorskip("torch")
import sweephand.torch


def make_loader(**options: Any) -> sh.torch.DataLoader:
    source = sh.MinibatchSource({"x": np.arange(12)}, randomization_seed=3)
    return sh.torch.DataLoader(sh.torch.IterableDataset(source, 4, **options))


def test_the_place_is_in_a_checkpoint_and_training_goes_on_there(tmp_path: Path) -> None:
    args = SimpleNamespace(output_dir=str(tmp_path), should_save=True)
    state = SimpleNamespace(global_step=1)
    (tmp_path / "checkpoint-1").mkdir()
    keep, first, second = sh.torch.transformers.KeepPlace(), make_loader(), make_loader()
    items = iter(first)
    next(items)
    keep.on_save(args, state, None, train_dataloader=first)
    keep.on_train_begin(args, SimpleNamespace(global_step=0), None, train_dataloader=second)
    keep.on_train_begin(args, state, None, train_dataloader=second)
    assert next(iter(second))["x"].tolist() == next(items)["x"].tolist()
    assert keep.on_step_end(args, state, None) is None
