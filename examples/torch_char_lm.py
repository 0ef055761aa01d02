"""A character language model of Python's own library, in PyTorch on `Trainer`.

    python examples/torch_char_lm.py [--figure curve.png]

Every function of the standard library is a sequence, every byte a sample. Minibatches are
ragged: as many whole functions as fit into so many bytes. A GRU reads them as a packed
sequence, so no step is spent on padding.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[torch]'")

from figure import curve, draw

import sweephand as sh
from sweephand.cli.demo import read_functions, standard_library

SYMBOLS = 128  # bytes beyond ASCII share the last one
LONGEST = 400  # bytes of a function; longer ones are left out


class CharModel(nn.Module):
    """Predicts every byte of a sequence from those before it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 32)
        self.gru = nn.GRU(32, width, batch_first=True)
        self.out = nn.Linear(width, SYMBOLS)

    def forward(self, before: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return logits, one row for every sample, in the order of a packed sequence."""
        packed = pack_padded_sequence(
            self.embedding(before), lengths, batch_first=True, enforce_sorted=False
        )
        return self.out(self.gru(packed)[0].data)


def cross_entropy(
    model: CharModel, minibatch: sh.Minibatch
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum of the loss over all bytes, and how many were not predicted."""
    data = minibatch["labels"]
    lengths = torch.from_numpy(data.lengths)
    text = torch.from_numpy(data.asarray().astype(np.int64)).clamp_(max=SYMBOLS - 1)
    before = nn.functional.pad(text, (1, 0))[:, :-1]  # 0 stands before a sequence
    truth = pack_padded_sequence(text, lengths, batch_first=True, enforce_sorted=False).data
    logits = model(before, lengths)
    loss = nn.functional.cross_entropy(logits, truth, reduction="sum")
    return loss, (logits.argmax(-1) != truth).sum()


def make_sources(sources: Path) -> tuple[sh.MinibatchSource, sh.MinibatchSource]:
    """Return functions to train on, and every tenth to validate."""
    corpus = read_functions(sources)
    functions = [
        corpus.tokens[begin : begin + length]
        for begin, length in zip(corpus.offsets[:-1], np.diff(corpus.offsets), strict=True)
        if length <= LONGEST
    ]
    parts = [f for i, f in enumerate(functions) if i % 10], functions[::10]
    training, validation = (sh.ArrayDeserializer({"labels": part}) for part in parts)
    return sh.MinibatchSource(training), sh.MinibatchSource(validation, max_sweeps=1)


def main() -> None:
    """Train and validate, and draw the learning curve if asked."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--samples", type=int, default=600_000, help="bytes to train on")
    arguments.add_argument("--width", type=int, default=128)
    arguments.add_argument("--sources", type=Path, default=standard_library())
    arguments.add_argument("--figure", type=Path)
    options = arguments.parse_args()
    torch.manual_seed(0)
    training, validation = make_sources(options.sources)
    model = CharModel(options.width)
    rates = sh.learning_parameter_schedule(
        [0.004, 0.004, 0.002, 0.001], minibatch_size=4096, epoch_size=options.samples // 4
    )
    guard = sh.StepGuard(torch.optim.Adam(model.parameters()), clip_norm=1.0)
    learner = sh.torch.Learner(guard, rates)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        writers = [sh.ProgressPrinter(freq=50), sh.JSONLProgressWriter(log, freq=5)]
        sh.training_session(
            sh.Trainer(model, cross_entropy, learner, writers),
            training,
            mb_size=4096,
            max_samples=options.samples,
            epoch_size=options.samples // 8,
            cv_config=sh.CrossValidationConfig(
                validation, frequency=(1, "epoch"), minibatch_size=8192, max_samples=20_000
            ),
        ).train()
        losses = {"training": curve(log, "training", "loss")}
        losses["validation"] = curve(log, "validation", "loss")
        errors = {"training": curve(log, "training", "metric")}
        errors["validation"] = curve(log, "validation", "metric")
        if options.figure:
            panels = [("loss, nats per byte", losses), ("bytes not predicted", errors)]
            draw(options.figure, "Functions of Python's library, byte by byte", panels)


if __name__ == "__main__":
    main()
