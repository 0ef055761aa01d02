"""The class of every sequence of a corpus, and texts of a stream as the numbers of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.corpus import Corpus, StoredCorpus
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import shown
from sweephand.maps.functions import KnownMap
from sweephand.maps.kept_pass import KeptPass, PassFindings, batches
from sweephand.maps.key import Key
from sweephand.maps.sequence_map import StoredStreams
from sweephand.maps.workers import OpenContext

_TEXT = "utf-8", "surrogateescape"


@dataclass(frozen=True)
class SequenceClasses:
    """Classes of all sequences."""

    names: list[str]  # the classes that there are: integers ascending, then texts
    # Place of each sequence's class in `names`. Damaged sequences are of the first.
    numbers: NDArray[np.int64]

    def of(self, name: str) -> NDArray[np.bool_]:
        """Return which sequences are of a class: bool, shape (sequences,)."""
        return np.equal(self.numbers, self.names.index(name))


def classes_of(corpus: Corpus, stream: str, opening: OpenContext) -> SequenceClasses:
    """Find the class of every sequence in one pass, which is kept beside the index of files.

    ValueError if there is no such stream, or it has several samples a sequence.
    """
    info = _checked(corpus, stream)
    if isinstance(corpus, StoredCorpus):  # of several that are joined one reader is enough
        readers = [one for one in corpus.readers if stream in {i.name for i in one.streams}]
        corpus = replace(corpus, readers=readers, chunks=corpus.chunk_starts)
    kept = KeptPass(corpus, opening, f"sorted classes of {stream}")
    if (known := kept.recall()) is not None:
        return SequenceClasses(list(known.facts["names"]), known.values.astype(np.int64))
    stored, seen = StoredStreams(corpus), dict[Any, int]()
    numbers = np.zeros(corpus.num_sequences, np.int64)
    for which, batch in batches(corpus, opening):
        values = np.concatenate(stored.sequences_of(batch)[stream].to_list()).tolist()
        numbers[which] = [seen.setdefault(value, len(seen)) for value in values]
    # Digits that are text are no numbers: so libraries sort the folders of classes.
    ordered = sorted(seen, key=class_name if info.dtype.kind == "O" else None)
    rank = np.empty(len(ordered), np.int64)
    rank[[seen[value] for value in ordered]] = np.arange(len(ordered))
    found = SequenceClasses([class_name(value) for value in ordered], rank[numbers])
    ones = np.ones(len(numbers), np.uint32)
    kept.keep(PassFindings(ones, found.numbers.astype(np.uint32), {"names": found.names}))
    return found


def class_name(value: Any) -> str:
    """Return the name of a class, an integer, bool or text."""
    return value.decode(*_TEXT) if isinstance(value, bytes) else str(value)


def _checked(corpus: Corpus, name: str) -> StreamInfo:
    infos = {info.name: info for info in corpus.streams}
    if name not in infos:
        raise ValueError(f"no stream {name!r}, there are: {', '.join(infos)}")
    info = infos[name]
    if not info.is_single or info.shape or info.is_sparse:
        raise ValueError(
            f"stream {name!r} has {info.form}, several a sequence or of several numbers, and "
            "is no class; map the corpus to a stream that is"
        )
    if info.dtype.kind not in "biuO":
        raise ValueError(
            f"stream {name!r} is of {info.dtype}, and a class is an integer, a bool or text: "
            "map the corpus to a stream of classes"
        )
    return info


_MOST_WORDS = 60  # characters of names in a fingerprint


class TextClasses(KnownMap):
    """A map of texts to the numbers of their classes, as `classes` makes it.

    `names` are those of the classes, by number; None: those that an opened corpus has.
    """

    functions = ()

    def __init__(self, stream: str, names: Sequence[str] | None = None) -> None:
        self.stream = stream
        self.names = None if names is None else list(names)
        self.name = f"classes of {stream}"
        if self.names is not None:
            text = "\0".join(self.names).encode(*_TEXT)
            listed = ", ".join(self.names)[:_MOST_WORDS]
            self.name += f": {listed} #{blake2b(text, digest_size=8).hexdigest()}"
            self._numbers = {name: number for number, name in enumerate(self.names)}

    def learned(self, corpus: Corpus, opening: OpenContext) -> TextClasses:
        if self.names is not None:
            return self
        return TextClasses(self.stream, classes_of(corpus, self.stream, opening).names)

    def classes(self) -> Mapping[str, tuple[str, ...]]:
        return {self.stream: tuple(self.names or ())}

    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> dict[str, Any]:
        """Return the sequence with numbers in place of texts: int64, (samples,)."""
        if self.stream not in sequence:
            raise ValueError(f"there is no stream {self.stream!r}, only {', '.join(sequence)}")
        numbers = [self._number(value) for value in sequence[self.stream]]
        return {**sequence, self.stream: np.array(numbers, np.int64)}

    def _number(self, value: Any) -> int:
        name = class_name(value)
        if name not in self._numbers:
            known = ", ".join(list(self._numbers)[:6])
            raise ValueError(
                f"{shown(name)} is none of the {len(self._numbers)} classes {known}"
            )
        return self._numbers[name]


def classes(stream: str, names: Sequence[str] | None = None) -> TextClasses:
    """Return a map that makes numbers of texts, such as labels, for `Deserializer.map`.

    The names are in ``source.streams[stream].classes``, by their numbers, and in the
    fingerprint of a state: a run goes on with the same numbers or not at all.

    Parameters
    ----------
    stream : str
        A stream of texts, or of integers or bools; without ``names`` of one sample a sequence.
    names : sequence of str, optional
        The classes of numbers 0, 1, ...; any other text is a `DataError`. By default those of
        the corpus, ascending: they are found in one pass, which is kept beside the index of
        files. Files of validation take the names of the training data.

    Returns
    -------
    callable
        A map of the stream to int64; other streams are unchanged.

    Raises
    ------
    ValueError
        If there are no names, or one comes twice.
    TypeError
        If an argument is of a wrong type.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"x": np.arange(3), "label": ["dog", "cat", "dog"]})
    >>> source = sh.MinibatchSource(corpus.map(sh.classes("label")), randomize=False)
    >>> source.next_minibatch(3)["label"].values, source.streams.label.classes
    (array([1, 0, 1]), ('cat', 'dog'))
    """
    if not isinstance(stream, str):
        raise TypeError(f"classes takes the name of a stream, got {shown(stream)}")
    if names is None:
        return TextClasses(stream)
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"names are a list of texts, got {shown(names)}")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"names are those of the classes, one each, got {shown(names)}")
    return TextClasses(stream, names)
