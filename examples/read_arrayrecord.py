"""Read ArrayRecord files, whose records hold examples: pip install sweephand[arrayrecord]."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

try:
    from array_record.python.array_record_module import ArrayRecordWriter
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[arrayrecord]'")


import sweephand as sh


def main() -> None:
    """Serve records of ``tf.train.Example``; JSON and bytes are told by the first one too."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.array_record"
        writer = ArrayRecordWriter(str(path), "group_size:1")
        for label, tokens in enumerate(([1, 2, 3], [4, 5])):
            writer.write(sh.tfrecord.encode_example({"tokens": tokens, "label": label}))
        writer.close()
        corpus = sh.ArrayRecordDeserializer(path)
        with sh.MinibatchSource(corpus, max_sweeps=2, randomization_seed=1) as source:
            for minibatch in source.minibatches(5):
                print(minibatch.ids, minibatch["tokens"].values, minibatch["label"].values)


if __name__ == "__main__":
    main()
