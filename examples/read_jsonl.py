"""Read JSON lines, within a budget of lines that are damaged."""

from pathlib import Path
from tempfile import TemporaryDirectory

import sweephand as sh

LINES = """\
{"tokens": [1, 2, 3], "score": 0.5, "text": "good"}
{"tokens": [4], "score": 1, "text": "better"}
{"tokens": [5, 6], "sco
{"tokens": [7, 8], "text": "no score"}
"""


def main() -> None:
    """Skip what is damaged, and list it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.jsonl"
        path.write_text(LINES)
        streams = sh.StreamDefs(
            tokens=sh.StreamDef(dtype="int32", defines_mb_size=True),
            score=sh.StreamDef(dtype="float32"),
            text=sh.StreamDef(),
        )
        corpus = sh.JSONLDeserializer(path, streams)
        with sh.MinibatchSource(corpus, max_sweeps=1, max_errors=1) as source:
            for minibatch in source.minibatches(4):
                print(minibatch.ids, minibatch["score"].lengths, minibatch["text"].values)
            for error in source.errors:
                print("skipped:", error.line, error.reason)


if __name__ == "__main__":
    main()
