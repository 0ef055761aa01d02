"""Read CNTK's text format: a sparse word and a sparse slot a line, sentence after sentence."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

try:
    import scipy  # noqa: F401 # sparse sequences are its matrices
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[scipy]'")

import sweephand as sh

SENTENCES = [([12, 7, 430], [0, 0, 5]), ([99, 3], [1, 0]), ([5], [2])]


def main() -> None:
    """Write a file, and train on nothing: print what a step would see."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.ctf"
        lines = [
            sh.sequence_to_cntk_text_format(
                number,
                {"S0": [{word: 1} for word in words], "S2": [{slot: 1} for slot in slots]},
            )
            for number, (words, slots) in enumerate(SENTENCES)
        ]
        path.write_text("\n".join(lines) + "\n")
        streams = sh.StreamDefs(
            query=sh.StreamDef(field="S0", shape=943, is_sparse=True),
            slots=sh.StreamDef(field="S2", shape=129, is_sparse=True, defines_mb_size=True),
        )
        with sh.MinibatchSource(sh.CTFDeserializer(path, streams), max_sweeps=1) as source:
            for minibatch in source.minibatches(4):
                words = [one.indices.tolist() for one in minibatch["query"].as_sequences()]
                print(minibatch.nominal_time, minibatch.ids, words)


if __name__ == "__main__":
    main()
