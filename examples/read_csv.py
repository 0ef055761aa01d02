"""Read tables of text, within a budget of rows that are damaged."""

from pathlib import Path
from tempfile import TemporaryDirectory

import sweephand as sh

TABLE = """\
label,score,text
0,0.5,"a cat, asleep"
1,0.25,a dog
one,2,what is no number
2,1,"two
lines"
"""


def main() -> None:
    """Skip what is damaged, and list it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.csv"
        path.write_text(TABLE)
        streams = sh.StreamDefs(
            label=sh.StreamDef(dtype="int64"),
            score=sh.StreamDef(dtype="float32"),
            text=sh.StreamDef(),
        )
        corpus = sh.CSVDeserializer(path, streams)
        with sh.MinibatchSource(corpus, max_sweeps=1, max_errors=1) as source:
            for minibatch in source.minibatches(2):
                print(minibatch.ids, minibatch["label"].values, minibatch["text"].values)
            for error in source.errors:
                print("skipped:", error.sequence, error.reason)


if __name__ == "__main__":
    main()
