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


def test_minibatches_that_a_loader_would_stack_are_refused_with_what_to_write() -> None:
    from torch.utils.data import DataLoader, default_collate

    dataset = make_loader(to_item=lambda minibatch: {"x": minibatch["x"].torch()}).dataset

    def like_transformers(items: list[Any]) -> Any:
        return default_collate(items)

    like_transformers.__module__ = "transformers.data.data_collator"
    for collate in (None, like_transformers):
        with pytest.raises(TypeError, match=r"stack 2 minibatches.*get_train_dataloader"):
            next(iter(DataLoader(dataset, batch_size=2, collate_fn=collate)))
    dataset.source.current_position = 0
    own = DataLoader(dataset, batch_size=2, collate_fn=list)
    assert len(next(iter(own))) == 2
