"""A torch run that goes back and leaves out what is to be forgotten never had it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tests.train.small import source_of_lengths
from tests.train.small_torch import torch_trainer

import sweephand as sh

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3] * 6


def test_torch_replays_to_the_bit_on_one_thread(tmp_path: Path) -> None:
    def train(name: str, events: Any) -> tuple[Any, sh.Trainer]:
        parts = torch.nn.Linear(2, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
        torch.manual_seed(3)
        for part in (parts[0], parts[2]):
            part.reset_parameters()
        model, trainer = torch_trainer(model=torch.nn.Sequential(*parts), loss_scale={})
        with source_of_lengths(LENGTHS, layout=sh.Packed(16), events=events) as source:
            config = sh.CheckpointConfig(
                tmp_path / name, frequency=(3, "minibatch"), preserve_all=True
            )
            session = sh.training_session(
                trainer, source, 20, max_samples=400, checkpoint_config=config
            )
            session.train()
        return model, trainer

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with source_of_lengths(LENGTHS, layout=sh.Packed(16)) as source:
            ids = source.sequence_ids(200, 216)
        never, _ = train("never", [sh.events.Ban(at=0, ids=ids)])
        train("seen", None)
        with source_of_lengths(LENGTHS, layout=sh.Packed(16)) as source:
            found = sh.train.plan_forgetting(ids, tmp_path / "seen", source)
        assert found.replay_from is not None
        assert found.num_minibatches > 0
        again, trainer = train("seen", [found.ban])
    finally:
        torch.set_num_threads(threads)
    digest = sh.train.parameter_digest(never.state_dict())
    assert sh.train.parameter_digest(again.state_dict()) == digest
    assert (
        sh.train.parameter_digest(trainer)
        == sh.train.parameter_digest(tmp_path / "seen")
        == digest
    )
