"""Train on real text, kill the run, go on, and compare: no data and no network are needed.

The corpus is the functions of Python's standard library; NumPy is enough, and a minute. What is
made stays in the output folder, for the other commands to try.

for example:
  sweephand demo
  sweephand demo --sources ~/src/my-project
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import sweephand as sh
from sweephand.cli.options import count, option, whole
from sweephand.cli.screen import Screen
from sweephand.run.writing import to_json

_NO_LIBRARY = {"test", "tests", "idlelib", "site-packages", "dist-packages", "__pycache__"}
_SYMBOLS, _ROWS = 128, 4096  # bytes beyond ASCII share a symbol; rows of hashed contexts

Step = dict[str, Any]  # its number, time and digest of what it saw, loss and scale


class Functions(NamedTuple):
    """Functions as consecutive bytes: uint8 tokens, int64 offsets and a name of each."""

    tokens: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    names: list[str]

    def write(self, folder: Path) -> None:
        """Write the corpus as two ``.npy`` files, as the command line reads them."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "bytes.npy", self.tokens)
        np.save(folder / "bytes_offsets.npy", self.offsets)


def standard_library() -> Path:
    """Return the folder of Python's own sources."""
    return Path(sysconfig.get_path("stdlib"))


def read_functions(sources: Path) -> Functions:
    """Collect the functions of all Python files below a folder, in a fixed order."""
    names, texts = [], []
    for file in sorted(sources.rglob("*.py")):
        place = file.relative_to(sources)
        if not _NO_LIBRARY.isdisjoint(place.parts):
            continue
        source = file.read_bytes()
        try:
            todo: list[ast.AST] = [ast.parse(source)]
        except (SyntaxError, ValueError):
            continue
        lines = source.splitlines(keepends=True)
        while todo:
            node = todo.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.append(f"{place.as_posix()}:{node.lineno} {node.name}")
                texts.append(b"".join(lines[node.lineno - 1 : node.end_lineno]))
            else:
                todo += reversed(list(ast.iter_child_nodes(node)))
    if not texts:  # as in a Python that was installed without its sources
        raise FileNotFoundError(f"there are no Python functions below {str(sources)!r}")
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Functions(np.frombuffer(b"".join(texts), np.uint8), offsets, names)


class NextByteModel:
    """Predicts a byte from the three before it, without BLAS, whose sums depend on threads."""

    def __init__(self) -> None:
        rows = (_SYMBOLS, _SYMBOLS, _SYMBOLS, _ROWS, _ROWS)
        self.parameters = {
            f"table{i}": np.zeros((many, _SYMBOLS), np.float16) for i, many in enumerate(rows)
        }

    def differentiate(
        self, tokens: NDArray[np.uint8], offsets: NDArray[np.int64], scale: float
    ) -> tuple[float, list[NDArray[np.float16]]]:
        """Return the sum of the loss in nats, and the gradients of the scaled loss."""
        symbols = np.minimum(tokens, _SYMBOLS - 1).astype(np.int64)
        before, shifted = [], symbols
        for _ in range(3):
            shifted = np.roll(shifted, 1)
            shifted[offsets[:-1]] = 0  # comes before a sequence
            before.append(shifted)
        pair = before[0] * 8191 + before[1] * 131
        contexts = [*before, pair % _ROWS, (pair + before[2] * 65599) % _ROWS]
        tables = list(self.parameters.values())
        logits = tables[0][contexts[0]].astype(np.float32)
        for table, context in zip(tables[1:], contexts[1:], strict=True):
            logits += table[context]
        error = np.exp(logits - logits.max(axis=1, keepdims=True))
        error /= error.sum(axis=1, keepdims=True)
        places = np.arange(len(symbols))
        loss = -np.log(error[places, symbols].astype(np.float64)).sum()
        error[places, symbols] -= 1  # the gradient of the logits: probability less truth
        error *= np.float32(scale)
        gradients = []
        for table, context in zip(tables, contexts, strict=True):
            order = np.argsort(context, kind="stable")  # equal rows add up in their given order
            begins = np.flatnonzero(np.diff(context[order], prepend=-1))
            gradient = np.zeros_like(table)
            with np.errstate(over="ignore"):  # the loss scale finds it
                gradient[context[order][begins]] = np.add.reduceat(error[order], begins, axis=0)
            gradients.append(gradient)
        return float(loss), gradients


def train(
    corpus: str, steps: int, size: int, seed: int, threads: int, saves: str | None
) -> Iterator[Step]:
    """Train step by step, from the newest checkpoint if there is one."""
    model = NextByteModel()
    rates = sh.learning_parameter_schedule(0.03, minibatch_size=4096)
    opt = sh.LossScaleOptimizer(
        sh.numpy.Adam(model.parameters, rates), initial_scale=256.0, dynamic_growth_steps=60
    )

    def criterion(model: NextByteModel, minibatch: sh.Minibatch) -> Any:
        data, scale = minibatch["bytes"], float(opt.get_scaled_loss(1.0))
        return model.differentiate(data.values, data.offsets, scale)

    trainer = sh.Trainer(model, criterion, opt)
    options: Any = {"num_threads": threads, "prefetch": 2 * threads}  # which must not matter
    with sh.MinibatchSource(sh.open(corpus), randomization_seed=seed, **options) as source:
        if saves and Path(saves).exists():
            source.restore_from_checkpoint(trainer.restore_from_checkpoint(saves))
        for number in range(trainer.consumed.steps, steps):
            minibatch, scale = source.next_minibatch(size), opt.loss_scale
            trainer.train_minibatch(minibatch)
            content = repr(minibatch.ids).encode() + minibatch["bytes"].values.tobytes()
            seen = [minibatch.nominal_time, blake2b(content, digest_size=16).hexdigest()]
            loss, applied = trainer.previous_minibatch_loss_average, opt.loss_scale >= scale
            step = {"number": number, "seen": seen, "loss": loss.hex()}
            yield step | {"scale": scale, "applied": applied}
            if saves and (number + 1) % max(1, steps // 12) == 0:
                trainer.save_checkpoint(saves, external_state=source.get_checkpoint_state())


def follow(settings: dict[str, Any], kill_at: int | None = None) -> list[Step]:
    """Train in a copy of this program and return its steps; kill it at a step."""
    command = [sys.executable, "-m", "sweephand.cli.demo", to_json(settings)]
    found = []
    # A group of its own, so that Ctrl-C reaches us alone and we end the copy.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as copy:
        assert copy.stdout is not None
        try:
            for line in copy.stdout:
                if line.endswith("\n"):  # the kill may cut the last one
                    found.append(json.loads(line))
                    if found[-1]["number"] == kill_at:
                        copy.send_signal(signal.SIGKILL)
        except BaseException:
            copy.kill()
            raise
    if copy.returncode != (0 if kill_at is None else -signal.SIGKILL):
        raise ChildProcessError(f"the copy ended with exit code {copy.returncode}")
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    option(parser, "--steps N", count, "500 by default", 500)
    option(parser, "--size M", count, "bytes in a minibatch, 4096", 4096)
    option(parser, "--seed N", whole, "0 by default", 0)
    option(parser, "--output DIR", Path, "sweephand-demo by default", Path("sweephand-demo"))
    option(parser, "--sources DIR", Path, "of other Python files", standard_library())


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    steps, folder = arguments.steps, arguments.output
    if steps < 20:
        raise ValueError(f"the demonstration needs 20 steps or more, got {steps}")
    screen.heading("1. A corpus that every machine has: the functions of Python's own sources")
    corpus, path = read_functions(arguments.sources), str(folder / "corpus")
    corpus.write(folder / "corpus")
    screen.text(f"{len(corpus.names):,} functions of {len(corpus.tokens):,} bytes in {path}")
    settings = {"corpus": path, "steps": steps, "size": arguments.size, "seed": arguments.seed}
    screen.heading("2. Train a small model that predicts the next byte, in float16")
    whole, begin = [], time.perf_counter()
    with screen.progress("train", steps) as advance:
        for step in train(**settings, threads=1, saves=None):
            whole.append(step)
            advance(1, f"loss {float.fromhex(step['loss']):.2f}")
    losses = [float.fromhex(step["loss"]) for step in whole]
    skipped = [step["number"] for step in whole if not step["applied"]]
    screen.text(
        f"{steps} steps in {time.perf_counter() - begin:.0f} s. The loss fell from "
        f"{losses[0]:.2f} to {np.mean(losses[-10:]):.2f} nats a byte; {len(skipped)} steps "
        "overflowed and were skipped, as the loss scale found its range."
    )
    screen.heading("3. Start the same run in a copy of this program, kill it, and go on")
    shutil.rmtree(saves := folder / "checkpoints", ignore_errors=True)
    kill_at = random.randint(steps // 4, steps * 6 // 10)  # chance: any step will do
    killed = follow(settings | {"threads": 1, "saves": str(saves)}, kill_at)
    resumed = follow(settings | {"threads": 3, "saves": str(saves)})
    first, last = resumed[0]["number"], killed[-1]["number"]
    screen.text(f"SIGKILL after step {last}; another copy went on with 3 threads at {first}.")
    ok = killed == whole[: len(killed)] and resumed == whole[first:]
    same = "yes, to the last bit." if ok else "NO. Please report it."
    screen.text(f"Ids, bytes, losses and scales are those of the unkilled run: {same}")
    facts = {"ok": ok, **settings, "killed_after_step": last}
    facts |= {"resumed_at_step": first, "losses": losses, "skipped_steps": skipped}

    screen.heading("Try next")
    commands = (f"info {path}", f"plan {path} --size 4096 --workers 8", f"view {path}")
    screen.lines(f"sweephand {words}" for words in commands)
    return facts


if __name__ == "__main__":
    for one in train(**json.loads(sys.argv[1])):
        print(to_json(one), flush=True)
