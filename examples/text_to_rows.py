"""Text to packed rows of tokens: tokenised once to know the lengths, then read as they are.

    python examples/text_to_rows.py [--output folder]

The tokenizer is one of Hugging Face's if `tokenizers` is installed, trained on the text itself,
and else splits words. It is a measured map: the first start is one pass at its own speed, and
each later one with the same --output takes milliseconds. With `pip install datasets` the text
comes as a data set of Hugging Face, else as JSON lines.
"""

import argparse
import json
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import sweephand as sh
from sweephand.cli.demo import read_functions, standard_library

VOCABULARY = 1000
Tokenize = Callable[[str], list[int]]


def functions_of(sources: Path, count: int) -> list[str]:
    """Return the text of some functions of the standard library."""
    corpus = read_functions(sources)
    bounds = zip(corpus.offsets, corpus.offsets[1:], strict=False)
    texts = [
        corpus.tokens[begin:end].tobytes().decode("utf8", "replace") for begin, end in bounds
    ]
    return [text for text in texts if text.strip()][:count]


def open_texts(texts: list[str], folder: Path) -> sh.Deserializer:
    """Return texts as a corpus: a data set of Hugging Face, or JSON lines."""
    try:
        import datasets
    except ImportError:
        path = folder / "texts.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        return sh.open(path)
    saved = folder / "texts"
    if not saved.exists():
        datasets.Dataset.from_dict({"text": texts}).save_to_disk(saved)
    return sh.open(saved)


def make_tokenizer(texts: list[str], path: Path) -> Tokenize:
    """Return a tokenizer, trained once."""
    try:
        from tokenizers import ByteLevelBPETokenizer, Tokenizer
    except ImportError:
        return lambda text: [zlib.crc32(word.encode()) % VOCABULARY for word in text.split()]
    if not path.exists():
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator(texts, VOCABULARY, show_progress=False)
        trained.save(str(path))
    tokenizer = Tokenizer.from_file(str(path))
    return lambda text: tokenizer.encode(text).ids


def main() -> None:
    """Tokenise, and serve packed rows."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--texts", type=int, default=2000)
    arguments.add_argument("--row-length", type=int, default=256)
    arguments.add_argument("--sources", type=Path, default=standard_library())
    arguments.add_argument("--output", type=Path, help="folder; a temporary one by default")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        texts = functions_of(options.sources, options.texts)
        encode = make_tokenizer(texts, folder / "tokenizer.json")

        def tokenize(sequence: Mapping[str, Any]) -> dict[str, Any]:
            return {"tokens": np.array(encode(sequence["text"][0].decode()), np.int32)}

        corpus = open_texts(texts, folder).map(tokenize, size="measured")
        for start in ("first", "second"):
            began = time.perf_counter()
            layout = sh.Packed(options.row_length, split_long="split")
            source = sh.MinibatchSource(corpus, layout=layout, max_sweeps=1)
            print(f"{start} start: {(time.perf_counter() - began) * 1e3:.0f} ms")
            with source:
                minibatches = list(source.minibatches(16 * options.row_length))
            tokens = sum(minibatch.num_samples for minibatch in minibatches)
            print(f"{tokens} tokens of {len(texts)} texts in {len(minibatches)} minibatches")


if __name__ == "__main__":
    main()
