"""Lightning with two ranks, whose checkpoints hold the place of the loader."""

import os

import lightning
import torch
from tests.frameworks.corpus import (
    NUM_SWEEPS,
    STEPS_BEFORE_STOP,
    Model,
    Notes,
    make_loader,
    parse,
)


class Module(lightning.LightningModule):
    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self.model = Model()
        self.notes = notes

    def training_step(self, item: dict[str, torch.Tensor], index: int) -> torch.Tensor:
        self.notes.add(item)
        return self.model(**item)["loss"]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def main() -> None:
    arguments = parse()
    # Where the loader has no length Lightning reads one minibatch ahead.
    read_ahead = 0 if arguments.kind == "rows" else 1
    loader = make_loader(arguments.kind, arguments.num_workers, read_ahead=read_ahead)
    module = Module(Notes(arguments.folder))
    checkpoints = lightning.pytorch.callbacks.ModelCheckpoint(
        arguments.folder, filename="middle", every_n_train_steps=STEPS_BEFORE_STOP
    )
    trainer = lightning.Trainer(
        accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp",
        max_epochs=NUM_SWEEPS,
        max_steps=STEPS_BEFORE_STOP if arguments.stop else -1, callbacks=[checkpoints],
        logger=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    checkpoint = arguments.resume / "middle.ckpt" if arguments.resume else None
    trainer.fit(module, loader, ckpt_path=checkpoint)
    module.notes.write()


if __name__ == "__main__":
    main()
