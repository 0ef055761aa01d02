"""A loop with accelerate, whose checkpoints hold the place of the loader."""

import accelerate
import torch
from tests.frameworks.corpus import (
    NUM_SWEEPS,
    STEPS_BEFORE_STOP,
    Model,
    Notes,
    make_loader,
    parse,
)


def main() -> None:
    arguments = parse()
    accelerator = accelerate.Accelerator(cpu=True)
    notes = Notes(arguments.folder)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader = make_loader(arguments.kind, arguments.num_workers)
    if arguments.torchs:
        loader = torch.utils.data.DataLoader(loader.dataset, batch_size=None)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if arguments.resume:
        accelerator.load_state(str(arguments.resume / "checkpoint"))
    source = loader.dataset.source
    while source.current_position < NUM_SWEEPS * source.num_samples_per_sweep:
        for item in loader:
            optimizer.zero_grad()
            accelerator.backward(model(**item)["loss"])
            optimizer.step()
            notes.add(item)
            if arguments.stop and len(notes.steps) == STEPS_BEFORE_STOP:
                accelerator.save_state(str(arguments.folder / "checkpoint"))
                break
        if arguments.stop and len(notes.steps) == STEPS_BEFORE_STOP:
            break
    notes.write()
    accelerator.end_training()


if __name__ == "__main__":
    main()
