"""transformers.Trainer, with a callback that keeps the place of the loader in checkpoints."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tests.frameworks.corpus import (
    LENGTHS,
    NUM_SWEEPS,
    SIZE,
    STEPS_BEFORE_STOP,
    Model,
    Notes,
    make_loader,
    parse,
)

PLACE = "sweephand.json"


class KeepPlace(transformers.TrainerCallback):
    """Save where the loader stands in every checkpoint."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if args.should_save:  # the place is the same on all ranks
            folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
            (folder / PLACE).write_text(json.dumps(self.loader.state_dict()))


class NotingModel(Model):
    notes: Notes

    def forward(self, x: torch.Tensor, **rest: torch.Tensor) -> dict[str, torch.Tensor]:
        self.notes.add(rest)
        return super().forward(x, **rest)


def main() -> None:
    arguments = parse()
    loader = make_loader(arguments.kind, arguments.num_workers)
    model = NotingModel()
    model.notes = Notes(arguments.folder)
    steps = {"num_train_epochs": NUM_SWEEPS}
    if arguments.kind != "rows":  # nobody knows the minibatches of an epoch
        steps = {"max_steps": 2 * sum(LENGTHS[arguments.kind]) // SIZE}
    if arguments.stop:
        steps = {"max_steps": STEPS_BEFORE_STOP}
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(arguments.folder),
            use_cpu=True,
            ddp_backend="gloo",
            report_to=[],
            disable_tqdm=True,
            save_steps=STEPS_BEFORE_STOP,
            ignore_data_skip=True,
            **steps,
        ),
        callbacks=[KeepPlace(loader)],
    )
    trainer.get_train_dataloader = lambda: loader
    checkpoint = None
    if arguments.resume:
        checkpoint = str(arguments.resume / f"checkpoint-{STEPS_BEFORE_STOP}")
        loader.load_state_dict(json.loads(Path(checkpoint, PLACE).read_text()))
    trainer.train(resume_from_checkpoint=checkpoint)
    model.notes.write()


if __name__ == "__main__":
    main()
