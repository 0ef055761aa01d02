"""Mix three corpora with weights that change over the run, and stop and go on in the middle.

    python examples/anneal_mixture.py

Python code, its documentation strings and its test suite's messages stand for the web, code and
books of a language model: the last third of the run anneals towards the first two.
"""

import argparse
import ast
import json
from itertools import pairwise
from pathlib import Path

import numpy as np

import sweephand as sh

ROW = 512


def corpora(sources: Path) -> dict[str, dict[str, list[np.ndarray]]]:
    """Return texts as bytes: their paragraphs, what they tell of themselves, comments."""
    found: dict[str, list[str]] = {"code": [], "docs": [], "comments": []}
    for path in sorted(sources.glob("*.py")):
        text = path.read_text(errors="replace")
        found["code"] += text.split("\n\n")
        comments = [line.strip() for line in text.splitlines() if line.strip().startswith("#")]
        found["comments"] += comments
        kinds = ast.Module, ast.FunctionDef, ast.ClassDef
        told = (ast.get_docstring(one) for one in ast.walk(ast.parse(text))
                if isinstance(one, kinds))  # fmt: skip
        found["docs"] += [one for one in told if one]
    return {
        name: {"tokens": [np.frombuffer(text.encode(), np.uint8) for text in texts if text]}
        for name, texts in found.items()
    }


def make_source(sources: Path, samples: int) -> sh.MinibatchSource:
    """Return a source of packed rows, whose mixture anneals in its last third."""
    at_first = {"code": 0.8, "docs": 0.15, "comments": 0.05}
    at_last = {"code": 0.2, "docs": 0.7, "comments": 0.1}
    mixture = sh.Mixture(
        corpora(sources), weights=[(samples * 2 // 3, at_first), (samples, at_last)]
    )
    layout = sh.Packed(ROW, split_long="split")
    return sh.MinibatchSource(mixture, layout=layout, max_samples=samples)


def main() -> None:
    """Deliver the mixture, and the second half of it again, from a state."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--sources", type=Path, default=Path(json.__file__).parents[1])
    arguments.add_argument("--samples", type=int, default=2_000_000)
    options = arguments.parse_args()
    source = make_source(options.sources, options.samples)
    rows, state = [], None
    for minibatch in source.minibatches(64 * ROW):
        if state is None and minibatch.nominal_time >= options.samples // 2:
            state = source.get_checkpoint_state()
            rows.clear()
        rows.append(minibatch["tokens"].asarray())
    times = [options.samples * part // 8 for part in range(9)]
    places = [source.corpus_positions(time) for time in times]
    for begin, (here, there) in zip(times, pairwise(places), strict=False):
        shares = {name: (there[name] - here[name]) / times[1] for name in here}
        told = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
        print(f"{begin:>9}: {told}")
    again = make_source(options.sources, options.samples)
    again.restore_from_checkpoint(state)
    rest = [minibatch["tokens"].asarray() for minibatch in again.minibatches(64 * ROW)]
    same = all(map(np.array_equal, rest, rows[1:])) and len(rest) == len(rows) - 1
    print("gone on from a state it is the same:", same)


if __name__ == "__main__":
    main()
