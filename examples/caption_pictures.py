"""Train a tiny vision-language model on pictures in packed rows, over killed processes.

    pip install "sweephand[image,torch]"
    python examples/caption_pictures.py

Documents have one to three pictures of any size, each with its caption. Rows are packed from
the sizes that headers say, hold no more patches than a limit, and are dealt so that no process
waits for another. Two processes train and are killed; one and three go on from the checkpoint,
with the minibatches of the run that was not killed.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

try:
    import torch
    import torch.distributed as dist
    from packed_transformer import ROW_LENGTH, Transformer
    from PIL import Image
    from torch import Tensor, nn
    from torch.nn.functional import cross_entropy
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[image,torch]'")

import sweephand as sh
import sweephand.torch

PATCH, MERGE = 14, 2
PLACEHOLDER, BEGIN, END = 1, 2, 3
COLOURS = {4: (220, 40, 40), 5: (40, 200, 40), 6: (40, 40, 220), 7: (230, 230, 40)}
WIDE, TALL, SQUARE = 8, 9, 10
MOST_PATCHES, WIDTH = 800, 64
SIZE, SAVE_EVERY = 18 * ROW_LENGTH, 4
COST = sh.Attention(cost={"patches": 3.5})


def make_corpus(num_documents: int = 300) -> sh.Deserializer:
    """Return documents: pictures as stored files, tokens, and where there is a loss."""
    rng = np.random.default_rng(0)
    pictures, texts, masks = [], [], []
    for _ in range(num_documents):
        files, tokens = [], [BEGIN]
        for _ in range(rng.integers(1, 4)):
            colour = int(rng.integers(4, 8))
            height, width = (rng.integers(2, 7, 2) * PATCH * MERGE).tolist()
            pixels = np.array(COLOURS[colour]) + rng.integers(-25, 25, (height, width, 3))
            file = io.BytesIO()
            Image.fromarray(pixels.astype(np.uint8)).save(file, "PNG")
            files.append(file.getvalue())
            form = SQUARE if height == width else WIDE if width > height else TALL
            tokens += [PLACEHOLDER, colour, form]
        tokens.append(END)
        pictures.append(files)
        texts.append(np.array(tokens))
        masks.append((texts[-1] > END).astype(np.uint8))
    rule = sh.images.NativeResolution(patch=PATCH, merge=MERGE, min_pixels=1)
    return sh.ArrayDeserializer(
        {"image": pictures, "tokens": texts, "loss_mask": masks},
        {
            "image": sh.StreamDef(carried=True),
            "tokens": sh.StreamDef(defines_mb_size=True),
            "loss_mask": sh.StreamDef(),
        },
    ).map(sh.images.patchify("image", rule, placeholder=PLACEHOLDER, loss_mask="loss_mask"))


def make_source() -> sh.MinibatchSource:
    """Return rows of at most so many patches."""
    layout = sh.Packed(ROW_LENGTH, limits={"patches": MOST_PATCHES})
    return sh.MinibatchSource(make_corpus(), layout=layout, balance=COST, randomization_seed=1)


class Captioner(Transformer):
    """A decoder that reads vectors of patches in the place of placeholders."""

    def __init__(self) -> None:
        super().__init__(WIDTH)
        self.tower = nn.Sequential(
            nn.Linear(MERGE**2 * 3 * PATCH**2, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)
        )
        self.row, self.column = nn.Embedding(16, WIDTH), nn.Embedding(16, WIDTH)

    def vectors(self, patches: Tensor, grid: Tensor) -> Tensor:
        """Return a vector for each four patches, with its place in its picture."""
        pixels = patches.reshape(-1, MERGE**2 * patches.shape[-1]).float() / 255 - 0.5
        places = [
            torch.cartesian_prod(torch.arange(h // MERGE), torch.arange(w // MERGE))
            for _, h, w in grid.tolist()
        ]
        rows, columns = torch.cat(places).T
        return self.tower(pixels) + self.row(rows) + self.column(columns)

    def loss(self, minibatch: sh.Minibatch) -> Tensor:
        """Return the sum of the loss of this share, over the labels of all processes."""
        tokens = minibatch["tokens"].torch(dtype="int64")
        found = self.vectors(minibatch["patches"].torch(), minibatch["grid"].torch())
        x = self.token(tokens)
        x = x.index_put(torch.nonzero(tokens == PLACEHOLDER, as_tuple=True), found)
        x = x + self.position(sh.torch.to_tensor(minibatch.position_ids))
        mask = sh.torch.attention_mask(minibatch)
        for layer in self.layers:
            x = layer(x, mask)
        labels = sh.torch.to_tensor(minibatch["tokens"].labels())
        total = cross_entropy(self.head(x).flatten(0, 1), labels.flatten(), reduction="sum")
        return total / minibatch.global_num_label_samples


def cost_of(minibatch: sh.Minibatch) -> float:
    """Return what a share costs, as the balance counts it."""
    lengths = minibatch["tokens"].lengths.astype(float)
    return float(COST.cost(lengths).sum() + 3.5 * minibatch["patches"].num_samples)


def work(rank: int, workers: int, folder: Path, steps: int) -> None:
    """Train from the checkpoint of a folder on, as one of some processes."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    meeting = f"file://{folder / f'meeting of {workers}'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=workers)
    source, model = make_source(), Captioner()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    kept, begin = folder / "checkpoint.pt", 0
    if kept.exists():
        state = torch.load(kept)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        source.restore_from_checkpoint(state["source"])
        begin = state["step"]
    for step in range(begin, steps):
        minibatch = source.next_minibatch(
            SIZE, num_data_partitions=workers, partition_index=rank
        )
        optimizer.zero_grad()
        loss = model.loss(minibatch)
        loss.backward()
        total = loss.detach()
        for value in [*(part.grad for part in model.parameters()), total]:
            dist.all_reduce(value)
        optimizer.step()
        shares: list[Any] = [None] * workers
        dist.all_gather_object(shares, (minibatch.ids, cost_of(minibatch)))
        if rank == 0:
            ids = sorted(name for own, _ in shares for name in own)
            told = {"step": step, "loss": total.item(), "ids": ids}
            with (folder / "steps.jsonl").open("a") as file:
                file.write(json.dumps(told | {"costs": [cost for _, cost in shares]}) + "\n")
            if (step + 1) % SAVE_EVERY == 0:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "source": source.get_checkpoint_state(),
                    "step": step + 1,
                }
                torch.save(state, folder / "checkpoint.new")
                (folder / "checkpoint.new").replace(kept)
    source.close()
    dist.destroy_process_group()


def launch(workers: int, folder: Path, steps: int, kill_at: int | None = None) -> list[Any]:
    """Train with some processes; return what the steps wrote. SIGKILL them after a step."""
    folder.mkdir(exist_ok=True)
    spawned = multiprocessing.get_context("spawn")
    processes = [
        spawned.Process(target=work, args=(rank, workers, folder, steps))
        for rank in range(workers)
    ]
    for process in processes:
        process.start()
    if kill_at is not None:
        while all(p.is_alive() for p in processes) and len(written(folder)) <= kill_at:
            time.sleep(0.01)
        for process in processes:
            process.kill()
    for process in processes:
        process.join()
        if kill_at is None and process.exitcode:
            sys.exit("a process has failed")
    return written(folder)


def written(folder: Path) -> list[Any]:
    """Return the steps that were written as a whole."""
    path = folder / "steps.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def main(steps: int = 16) -> None:
    """Train as a whole, and killed, on one process and three."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.environ.setdefault("SWEEPHAND_CACHE", str(root / "cache"))
        with make_source() as source:
            minibatch = source.next_minibatch(SIZE)
            print(f"{minibatch}\nrows filled {100 * minibatch.fill_ratio:.1f} %")
            fullest = np.bincount(minibatch["patches"].rows).max()
            print(f"the fullest row has {fullest} of {MOST_PATCHES} patches")
        whole = launch(2, root / "whole", steps)
        worst = max(max(one["costs"]) / np.mean(one["costs"]) for one in whole)
        print(f"loss {whole[0]['loss']:.3f} at step 1, {whole[-1]['loss']:.3f} at step {steps}")
        print(f"shares of two processes differ by {100 * (worst - 1):.1f} % at most")
        launch(2, root / "killed", steps, kill_at=steps // 2)
        for workers in (1, 3):
            own = root / f"on {workers}"
            shutil.copytree(root / "killed", own)
            (own / "steps.jsonl").unlink()
            resumed = launch(workers, own, steps)
            rest = whole[-len(resumed) :]
            are_same = [one["ids"] for one in rest] == [one["ids"] for one in resumed]
            pairs = zip(rest, resumed, strict=True)
            apart = max(abs(one["loss"] - other["loss"]) for one, other in pairs)
            print(
                f"killed, and {len(resumed)} steps on {workers}: same minibatches {are_same}, "
            )
            print(f"  losses differ by {apart:.1e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
