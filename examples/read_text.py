"""Read plain text: lines in gzip, and the same lines in two languages."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import sweephand as sh


def main() -> None:
    """Print what is served."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        # Members of gzip, one after the other, can be read each by itself.
        members = [f"line {n}\nline {n + 1}\n".encode() for n in range(0, 6, 2)]
        (folder / "train.txt.gz").write_bytes(b"".join(map(gzip.compress, members)))
        (folder / "en.txt").write_text("a cat\na dog\n")
        (folder / "fr.txt").write_text("un chat\nun chien\n")

        lines = sh.TextDeserializer(folder / "train.txt.gz")
        with sh.MinibatchSource(lines, max_sweeps=1, randomization_seed=1) as source:
            for minibatch in source.minibatches(4):
                print(minibatch.ids, minibatch["text"].values)

        pair = [
            sh.TextDeserializer(folder / f"{language}.txt", {language: sh.StreamDef("text")})
            for language in ("en", "fr")
        ]
        with sh.MinibatchSource(pair, max_sweeps=1) as source:
            minibatch = source.next_minibatch(2)
            print(minibatch["en"].values, minibatch["fr"].values)


if __name__ == "__main__":
    main()
