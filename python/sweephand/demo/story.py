"""The demonstration, shown to a person as it happens, and its facts."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweephand.demo.figure import draw_runs
from sweephand.demo.library_text import LibraryText, read_text
from sweephand.demo.second_kind import (
    fills,
    first_functions,
    same_minibatches,
    write_records,
)
from sweephand.demo.training import DemoStep, Resumed, Settings, follow, train
from sweephand.terminal import pictures
from sweephand.terminal.charts import bars, by_powers_of_two, curve
from sweephand.terminal.numbers import in_count, in_seconds
from sweephand.terminal.screen import Screen

LEAST_STEPS = 20
RECORDS = 5000  # functions that are written as records too


def compare(steps: Sequence[DemoStep], whole: Sequence[DemoStep]) -> dict[str, Any]:
    """Compare steps with those of the same numbers in the whole run, bit for bit."""
    pairs = [(step, whole[step.number]) for step in steps]
    return {
        "first_step": steps[0].number,
        "last_step": steps[-1].number,
        "same_minibatch": all(
            (one.nominal_time, one.digest) == (other.nominal_time, other.digest)
            for one, other in pairs
        ),
        "same_loss": all(one.loss.hex() == other.loss.hex() for one, other in pairs),
        "same_scale": all(
            (one.scale, one.applied) == (other.scale, other.applied) for one, other in pairs
        ),
    }


def tell(
    sources: Path,
    folder: Path,
    *,
    steps: int,
    size: int,
    seed: int,
    screen: Screen,
    figures: Mapping[str, Path] | None = None,
) -> dict[str, object]:
    """Run the demonstration and return its facts; ``ok`` is True if all was the same.

    Parameters
    ----------
    sources : Path
        Where Python files are.
    folder : Path
        Where the corpus, the checkpoint and the figure go.
    steps, size, seed : int
        Of the run; `size` in bytes.
    figures : dict of Path, optional
        Where the figure goes, by its kind, "png" or "html"; a PNG into `folder` by default.

    Raises
    ------
    ValueError
        If there are too few steps to kill a run in time.
    """
    if steps < LEAST_STEPS:
        raise ValueError(f"the demonstration needs {LEAST_STEPS} steps or more, got {steps}")
    begin = time.perf_counter()
    corpus = _tell_corpus(sources, folder / "corpus", screen)
    checkpoints = folder / "checkpoints"
    settings = Settings(folder / "corpus", steps, size, seed, num_threads=1, prefetch=2)
    saving = replace(settings, checkpoints=checkpoints, checkpoint_steps=steps // 12)
    whole = _tell_training(settings, screen)
    shutil.rmtree(checkpoints, ignore_errors=True)
    killed = _tell_kill(saving, screen)
    place, resumed = _tell_resume(saving, replace(saving, num_threads=3, prefetch=7), screen)
    checks = [
        {"run": "the copy that was killed", **compare(killed, whole)},
        {"run": "the copy that went on", **compare(resumed, whole)},
    ]
    ok = _tell_comparison(checks, screen)
    others = _tell_other_kinds(corpus, folder / "corpus.tfrecord", settings, screen)
    _tell_curve(whole, screen)
    drawn = {}
    if pictures.has_matplotlib():
        figure = draw_runs(corpus.lengths, whole, killed, resumed)
        for kind, path in {"png": folder / "demo.png", **(figures or {})}.items():
            pictures.save(figure, path, kind)
            screen.text(f"figure: {path}")
            drawn[kind] = str(path)
    else:
        screen.text(f"There is no figure: {pictures.HOW_TO_INSTALL}")
    _tell_what_next(settings, corpus, killed[-1].number, screen)
    return {
        "ok": ok and others["same"],
        "corpus": str(settings.corpus),
        "num_sequences": len(corpus.names),
        "num_samples": len(corpus.tokens),
        "steps": steps,
        "size": size,
        "seed": seed,
        "killed_after_step": killed[-1].number,
        "resumed_at_step": place.step,
        "restore_to_first_minibatch_seconds": place.place_seconds,
        "state": place.state,
        "checks": checks,
        "records": others,
        "losses": [step.loss for step in whole],
        "scales": [step.scale for step in whole],
        "skipped_steps": [step.number for step in whole if not step.applied],
        "png": drawn.get("png"),
        **drawn,
        "seconds": time.perf_counter() - begin,
    }


def _tell_corpus(sources: Path, folder: Path, screen: Screen) -> LibraryText:
    screen.heading("1. A corpus that every machine has: the functions of Python's own sources")
    corpus = read_text(sources)
    corpus.write(folder)
    screen.facts(
        {
            "found in": str(sources),
            "sequences": f"{in_count(len(corpus.names))}, each of them a function",
            "samples": f"{in_count(len(corpus.tokens))}, each of them a byte",
        }
    )
    screen.text("\nBytes in a function, and so many functions:")
    screen.lines(bars(*by_powers_of_two(corpus.lengths), screen.ink, screen.width))
    return corpus


def _tell_training(settings: Settings, screen: Screen) -> list[DemoStep]:
    screen.heading("2. Train a small model that predicts the next byte, in float16")
    begin = time.perf_counter()
    _, steps = _collect(train(settings), "train", settings.steps, screen)
    seconds = time.perf_counter() - begin
    last = [step.loss for step in steps[-10:]]
    screen.text(
        f"{settings.steps} steps of {in_count(settings.size)} bytes in {in_seconds(seconds)}. "
        f"The loss fell from {steps[0].loss:.2f} to {sum(last) / len(last):.2f} nats per byte."
    )
    scales = [step.scale for step in steps]
    skipped = sum(not step.applied for step in steps)
    screen.text(
        f"The loss scale went between {min(scales):g} and {max(scales):g}; {skipped} steps "
        "overflowed and were skipped."
    )
    return steps


def _tell_kill(settings: Settings, screen: Screen) -> list[DemoStep]:
    screen.heading("3. Start the same run in a copy of this program, and kill it")
    # Chance, not the seed: any step will do.
    kill_at = random.randint(settings.steps // 4, settings.steps * 6 // 10)
    _, steps = _collect(follow(settings, kill_at=kill_at), "copy", kill_at, screen)
    screen.text(
        f"SIGKILL after step {steps[-1].number}. All that is left is the checkpoint that it "
        f"wrote every {settings.checkpoint_steps} steps."
    )
    return steps


def _tell_resume(
    before: Settings, settings: Settings, screen: Screen
) -> tuple[Resumed, list[DemoStep]]:
    screen.heading("4. Start another copy, which goes on from the checkpoint")
    place, steps = _collect(follow(settings), "go on", settings.steps, screen)
    if place is None:
        raise ChildProcessError("the copy found no checkpoint to go on from")
    screen.facts(
        {
            "goes on at": f"step {place.step}, {in_count(place.state['position'])} bytes after "
            "the start",
            "state": f"{len(json.dumps(place.state, allow_nan=False))} bytes of JSON",
            "threads": f"{settings.num_threads} instead of {before.num_threads}",
            "prefetch": f"{settings.prefetch} minibatches instead of {before.prefetch}",
            "place found in": f"{in_seconds(place.place_seconds)}, from state to minibatch",
        }
    )
    return place, steps


def _collect(
    events: Iterable[DemoStep | Resumed], title: str, total: int, screen: Screen
) -> tuple[Resumed | None, list[DemoStep]]:
    place, steps = None, []
    with screen.progress(title, total) as advance:
        for event in events:
            if isinstance(event, Resumed):
                place = event
                advance(event.step)
            else:
                steps.append(event)
                advance(1, f"loss {event.loss:.2f}")
    return place, steps


def _tell_comparison(checks: Sequence[dict[str, Any]], screen: Screen) -> bool:
    screen.heading("5. Compare with the run that was never killed, bit for bit")
    words = {True: "yes", False: "NO"}
    screen.table(
        ["", "steps", "same ids and bytes", "same loss", "same scale"],
        [
            (
                check["run"],
                f"{check['first_step']} to {check['last_step']}",
                words[check["same_minibatch"]],
                words[check["same_loss"]],
                words[check["same_scale"]],
            )
            for check in checks
        ],
    )
    same = ("same_minibatch", "same_loss", "same_scale")
    ok = all(check[what] for check in checks for what in same)
    if not ok:
        screen.text("The runs differ, which they must not: please report it.", style="bold red")
    return ok


def _tell_other_kinds(
    corpus: LibraryText, path: Path, settings: Settings, screen: Screen
) -> dict[str, Any]:
    screen.heading("6. The same functions in a TFRecord file, and in rows without padding")
    part = first_functions(corpus, RECORDS)
    count = write_records(part, path)
    minibatches, same = same_minibatches(part, path, size=settings.size, seed=settings.seed)
    filled = fills(corpus, seed=settings.seed)
    screen.facts(
        {
            "records": f"{in_count(count)}, checksums verified, in {path}",
            "same order": f"{'yes' if same else 'NO'}: {in_count(minibatches)} minibatches "
            "against those from memory, bit for bit",
            **{name: f"{fill:.2%} of all cells hold a byte" for name, fill in filled.items()},
        }
    )
    return {"path": str(path), "count": count, "same": same, "fills": filled}


def _tell_curve(steps: Sequence[DemoStep], screen: Screen) -> None:
    screen.heading("The loss in nats per byte, over the steps")
    screen.lines(curve([step.loss for step in steps], screen.ink, room=screen.width))


def _tell_what_next(settings: Settings, corpus: LibraryText, step: int, screen: Screen) -> None:
    path = settings.corpus
    order = f"--size {settings.size} --seed {settings.seed}"
    screen.heading("Try next")
    for command in (
        f"info {path}",
        f"plan {path} {order} --workers 8",
        f"trace {path} {order} --step {step}",
        f"find {path} {order} bytes.npy__0",
        f"verify {path} {order}",
    ):
        screen.command(f"sweephand {command}")
    screen.text(
        f"where bytes.npy__0 is {corpus.names[0]}; then your own arrays, see the README"
    )
