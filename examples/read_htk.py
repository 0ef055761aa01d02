"""Read features of HTK by a list, joined with the labels of their frames."""

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import sweephand as sh


def write_corpus(folder: Path) -> None:
    """Write an archive of two utterances, the list of them, and their labels."""
    frames = np.arange(18, dtype=">f4")  # nine of two values
    header = struct.pack(">iihh", 9, 100_000, 8, 9)  # 10 ms, 8 bytes each, kind USER
    (folder / "train.chunk").write_bytes(header + frames.tobytes())
    (folder / "train.scp").write_text(
        "speaker/one.mfc=train.chunk[0,4]\nspeaker/two.mfc=train.chunk[5,8]\n"
    )
    (folder / "states.txt").write_text("sil\nah\n")
    (folder / "train.mlf").write_text(
        '#!MLF!#\n"*/speaker/one.lab"\n0 200000 sil\n200000 500000 ah\n.\n'
        '"*/speaker/two.lab"\n0 400000 ah\n.\n'
    )


def main() -> None:
    """Print utterances, and then frames with those beside them."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder)
        features = sh.HTKFeatureDeserializer(
            {"features": sh.io.StreamDef(scp=folder / "train.scp", shape=2, context=(1, 1))}
        )
        labels = sh.HTKMLFDeserializer(
            folder / "states.txt", {"labels": sh.io.StreamDef(mlf=folder / "train.mlf")}
        )
        corpus = [features, labels]
        with sh.MinibatchSource(corpus, max_sweeps=1) as source:
            for minibatch in source.minibatches(5):
                print(minibatch.ids, minibatch["labels"].values)
        with sh.MinibatchSource(corpus, frame_mode=True, max_sweeps=1) as source:
            for minibatch in source.minibatches(3):
                print(minibatch.ids, minibatch["features"].values[:, 2:4].tolist())


if __name__ == "__main__":
    main()
