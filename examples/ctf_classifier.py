"""A sequence classifier over CNTK's text format: of which package a function is.

    python examples/ctf_classifier.py [--figure curve.png]

Functions of the standard library are written as sequences of sparse words with one label each.
The minibatch is counted in words, which define its size; the epoch in labels, one a sequence.
"""

import argparse
import re
import sys
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

try:
    import torch
    from torch import nn
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[torch]'")

from figure import curve, draw

import sweephand as sh
from sweephand.cli.demo import read_functions, standard_library

PACKAGES = [
    "asyncio",
    "ctypes",
    "email",
    "http",
    "importlib",
    "multiprocessing",
    "unittest",
    "xml",
]
WORDS = 2000  # hashes of words
LONGEST = 100


def functions_of(sources: Path) -> list[tuple[int, list[int]]]:
    """Return package and hashed words of every function in one of the packages."""
    corpus = read_functions(sources)
    found = []
    for name, begin, end in zip(corpus.names, corpus.offsets, corpus.offsets[1:], strict=False):
        package = name.split("/")[0]
        words = re.findall(rb"[A-Za-z]+|[^\sA-Za-z]", corpus.tokens[begin:end].tobytes())
        if package in PACKAGES and words:
            hashes = [zlib.crc32(word) % WORDS for word in words[:LONGEST]]
            found.append((PACKAGES.index(package), hashes))
    return found


def write_ctf(path: Path, functions: Iterable[tuple[int, list[int]]]) -> None:
    """Write one line for every word; the first of a sequence has the label too."""
    with path.open("w") as file:
        for number, (label, words) in enumerate(functions):
            for i, word in enumerate(words):
                field = f" |package {label}:1" if i == 0 else ""
                file.write(f"{number} |word {word}:1{field}\n")


def open_ctf(path: Path, **limits: int) -> sh.MinibatchSource:
    """Open such a file."""
    streams = sh.StreamDefs(
        words=sh.StreamDef(field="word", shape=WORDS, is_sparse=True, defines_mb_size=True),
        labels=sh.StreamDef(field="package", shape=len(PACKAGES), is_sparse=True),
    )
    return sh.MinibatchSource(sh.CTFDeserializer(path, streams), **limits)


class Classifier(nn.Module):
    """The mean of what a GRU says over the words of a sequence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width)
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, len(PACKAGES))

    def forward(self, words: torch.Tensor, is_there: torch.Tensor) -> torch.Tensor:
        """Return logits of shape (sequences, packages)."""
        said = self.gru(self.embedding(words))[0] * is_there[:, :, None]
        return self.out(said.sum(1) / is_there.sum(1, keepdim=True))


def cross_entropy(
    model: Classifier, minibatch: sh.Minibatch
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sums of loss and errors over the labels."""
    data = minibatch["words"]
    is_there = data.mask > 0
    words = np.zeros(is_there.shape, np.int64)
    words[is_there] = data.values.indices  # of the CSR matrix: one word in a row
    labels = torch.from_numpy(minibatch["labels"].values.indices.astype(np.int64))
    logits = model(torch.from_numpy(words), torch.from_numpy(is_there).float())
    loss = nn.functional.cross_entropy(logits, labels, reduction="sum")
    return loss, (logits.argmax(-1) != labels).sum()


def main() -> None:
    """Write the files, train, validate and test, and draw the learning curve if asked."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--sweeps", type=int, default=6)
    arguments.add_argument("--width", type=int, default=48)
    arguments.add_argument("--sources", type=Path, default=standard_library())
    arguments.add_argument("--figure", type=Path)
    options = arguments.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        functions = functions_of(options.sources)
        print(f"{len(functions)} functions of {len(PACKAGES)} packages")
        write_ctf(folder / "train.ctf", (f for i, f in enumerate(functions) if i % 5))
        write_ctf(folder / "test.ctf", functions[::5])
        model = Classifier(options.width)
        rates = sh.learning_parameter_schedule([(4, 0.003), 0.001], minibatch_size=32)
        learner = sh.torch.Learner(torch.optim.Adam(model.parameters()), rates)
        log = folder / "log.jsonl"
        writers = [sh.ProgressPrinter(), sh.JSONLProgressWriter(log, freq=None)]
        sh.training_session(
            sh.Trainer(model, cross_entropy, learner, writers),
            open_ctf(folder / "train.ctf", max_sweeps=options.sweeps),
            mb_size=2048,  # words
            epoch_size=sh.FULL_DATA_SWEEP,
            cv_config=sh.CrossValidationConfig(
                open_ctf(folder / "test.ctf", max_sweeps=1),
                frequency=(1, "sweep"),
                minibatch_size=8192,
            ),
        ).train()
        if options.figure:
            kinds = {"training": "summary", "validation": "validation"}
            panels = [
                (ylabel, {name: curve(log, kind, figure) for name, kind in kinds.items()})
                for ylabel, figure in (("loss, nats per label", "loss"), ("errors", "metric"))
            ]
            draw(options.figure, "Which package is a function of?", panels)


if __name__ == "__main__":
    main()
