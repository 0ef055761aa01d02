"""Sounds to frames of a spectrogram: decoded, measured once, and served frame by frame.

    python examples/speech_spectrograms.py

Sounds of two tones are written as WAV files. Two maps make frames of them: one decodes, one
transforms, and says how many frames come of how many samples. Rows of a fixed number of frames
are what a model gets. It needs soundfile.
"""

import argparse
import sys
import tempfile
import wave
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

try:
    import soundfile  # noqa: F401 # which decodes
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[audio]'")

import sweephand as sh

RATE = 8000
WINDOW, STEP = 256, 128  # samples
WORDS = {"low": 300, "high": 1200}


def write_sounds(folder: Path, count: int) -> list[Path]:
    """Write WAV files of a tone in noise, 0.2 to 0.6 seconds long."""
    rng = np.random.default_rng(0)
    paths = []
    for number in range(count):
        word = list(WORDS)[number % 2]
        seconds = np.arange(int(rng.uniform(0.2, 0.6) * RATE)) / RATE
        tone = np.sin(2 * np.pi * WORDS[word] * seconds) + rng.normal(0, 0.5, len(seconds))
        paths.append(folder / f"{word}-{number}.wav")
        with wave.open(str(paths[-1]), "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(RATE)
            out.writeframes((tone * 8000).astype("<i2").tobytes())
    return paths


def num_frames(sizes: Mapping[str, int], key: sh.Key) -> int:
    """Return how many frames come of a sound."""
    return 1 + max(0, sizes["sound"] - WINDOW) // STEP


def spectrogram(sequence: Mapping[str, Any]) -> dict[str, Any]:
    """Return the strengths of the frequencies in each frame, and the label of each."""
    sound = sequence["sound"]
    sound = np.pad(sound, (0, max(0, WINDOW - len(sound))))
    frames = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::STEP]
    strengths = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), axis=1))
    labels = np.repeat(sequence["word"], len(frames))
    return {"frames": np.log1p(strengths).astype(np.float32), "word": labels}


def make_corpus(paths: list[Path]) -> sh.Deserializer:
    """Return the frames of sounds."""
    corpus = sh.ArrayDeserializer(
        {
            "sound": [path.read_bytes() for path in paths],
            "word": np.array([list(WORDS).index(path.name.split("-")[0]) for path in paths]),
        },
        ids=[path.name for path in paths],
    )
    return corpus.map(sh.decode.audio("sound", RATE)).map(spectrogram, size=num_frames)


def main() -> None:
    """Learn a mean frame of each word, and tell words by it."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--sounds", type=int, default=200)
    arguments.add_argument("--row-length", type=int, default=64, help="frames")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = make_corpus(write_sounds(Path(folder), options.sounds))
        layout = sh.Packed(options.row_length)
        with sh.MinibatchSource(corpus, layout=layout, max_sweeps=1) as source:
            sums, counts = np.zeros((2, WINDOW // 2 + 1)), np.zeros(2)
            for minibatch in source.minibatches(8 * options.row_length):
                for word in range(2):
                    own = minibatch["word"].values == word
                    sums[word] += minibatch["frames"].values[own].sum(axis=0)
                    counts[word] += own.sum()
            means = sums / counts[:, None]
        with sh.MinibatchSource(corpus, max_sweeps=1) as source:
            minibatch = source.next_minibatch(source.num_samples_per_sweep)
            right = [
                np.square(frames.mean(axis=0) - means).sum(axis=1).argmin() == words[0]
                for frames, words in zip(
                    minibatch["frames"].as_sequences(),
                    minibatch["word"].as_sequences(),
                    strict=True,
                )
            ]
    print(f"{int(counts.sum())} frames, {np.mean(right):.0%} of {len(right)} words told")


if __name__ == "__main__":
    main()
