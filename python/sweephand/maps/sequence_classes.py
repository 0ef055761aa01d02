"""The class of every sequence of a corpus, and texts of a stream as the numbers of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.corpus import Corpus, StoredCorpus
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError, shown
from sweephand.maps.kept_pass import KeptPass, PassFindings, batches
from sweephand.maps.key import Key
from sweephand.maps.known_map import KnownMap
from sweephand.maps.stored_streams import StoredStreams
from sweephand.maps.workers import OpenContext

By: TypeAlias = str | Callable[[Mapping[str, Any]], Any]
"""A stream of one sample, or a function of a sequence that returns an integer, bool or text."""

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


def classes_of(corpus: Corpus, by: By, opening: OpenContext) -> SequenceClasses:
    """Find the class of every sequence in one pass, in storage order.

    What a stream says is kept beside the index of files, what a function says is not.
    ValueError if there is no such stream, or it has several samples a sequence; DataError if a
    function fails or returns something that is no class.
    """
    if callable(by):
        return _numbered(_of_function(corpus, by, opening), corpus.num_sequences)
    info = _checked(corpus, by)
    narrow = _with_reader_of(corpus, info)
    kept = KeptPass(narrow, opening, f"sorted classes of {info.name}")
    if (known := kept.recall()) is not None:
        return SequenceClasses(list(known.facts["names"]), known.values.astype(np.int64))
    found = _numbered(_of_stream(narrow, info, opening), corpus.num_sequences)
    kept.keep(PassFindings.one_each(found.numbers.astype(np.uint32), names=found.names))
    return found


def class_name(value: Any) -> str | None:
    """Return the name of a class as text; None if the value is none.

    Examples
    --------
    >>> import numpy as np
    >>> [class_name(one) for one in (3, np.array([4]), b"cat", True, 0.5)]
    ['3', '4', 'cat', 'True', None]
    """
    if isinstance(value, np.ndarray | np.generic) and value.size == 1:
        value = value.item()
    if isinstance(value, bytes):
        return value.decode(*_TEXT)
    return str(value) if isinstance(value, bool | int | str) else None


def _checked(corpus: Corpus, name: str) -> StreamInfo:
    infos = {info.name: info for info in corpus.streams}
    if name not in infos:
        raise ValueError(f"no stream {name!r}, there are: {', '.join(infos)}")
    info = infos[name]
    if not info.is_single or info.shape or info.is_sparse:
        raise ValueError(
            f"stream {name!r} has {info.kind}, several a sequence or of several numbers, and "
            "is no class; give a function, def by(sequence): return the class of it"
        )
    if info.dtype.kind not in "biuO":
        raise ValueError(
            f"stream {name!r} is of {info.dtype}, and a class is an integer, a bool or text; "
            f"give a function, def by(sequence): return int(sequence[{name!r}][0] > 0.5)"
        )
    return info


def _with_reader_of(corpus: Corpus, info: StreamInfo) -> Corpus:
    """Return the corpus with only the reader of a stream, where several are joined."""
    if not isinstance(corpus, StoredCorpus):
        return corpus
    readers = [one for one in corpus.readers if any(i.name == info.name for i in one.streams)]
    return replace(corpus, readers=readers, chunks=corpus.chunk_starts)


Found: TypeAlias = Iterator[tuple[NDArray[np.uint64], list[Any]]]


def _of_stream(corpus: Corpus, info: StreamInfo, opening: OpenContext) -> Found:
    stored = StoredStreams(corpus)
    for numbers, batch in batches(corpus, opening):
        sequences = stored.sequences_of(batch)[info.name]
        yield numbers, np.concatenate(sequences.to_list()).tolist()


def _of_function(
    corpus: Corpus, by: Callable[[Mapping[str, Any]], Any], opening: OpenContext
) -> Found:
    stored = StoredStreams(corpus)
    for numbers, batch in batches(corpus, opening):
        streams = {name: one.to_list() for name, one in stored.sequences_of(batch).items()}
        found = []
        for place, number in enumerate(numbers):
            sequence = {name: values[place] for name, values in streams.items()}
            wrong, cause = "", None
            try:
                found.append(by(sequence))
                if class_name(found[-1]) is None:
                    wrong = f"returned {shown(found[-1])}, no integer, bool or text"
            except Exception as error:
                wrong, cause = f"raised {type(error).__name__}: {error}", error
            if wrong:
                (name,) = corpus.ids.names(np.array([number], np.uint64))
                raise DataError(f"by= {wrong}", sequence=name) from cause
        yield numbers, found


def _numbered(
    found: Iterable[tuple[NDArray[np.uint64], list[Any]]], count: int
) -> SequenceClasses:
    places: dict[str, int] = {}
    seen: dict[tuple[type, Any], int] = {}  # as they come, which is quicker than by their names
    numbers = np.zeros(count, np.int64)
    for which, values in found:
        numbers[which] = [_place(value, seen, places) for value in values]
    integers = {str(value): value for kind, value in seen if kind is int}
    # Digits that came as text are no numbers: so libraries sort the folders of classes.
    names = sorted(places, key=lambda name: (name not in integers, integers.get(name, 0), name))
    rank = np.empty(len(names), np.int64)
    rank[[places[name] for name in names]] = np.arange(len(names))
    return SequenceClasses(names, rank[numbers])


def _place(value: Any, seen: dict[tuple[type, Any], int], places: dict[str, int]) -> int:
    if isinstance(value, np.ndarray | np.generic):
        value = value.item()
    place = seen.get((type(value), value))
    if place is None:
        name = class_name(value)
        assert name is not None
        place = seen[type(value), value] = places.setdefault(name, len(places))
    return place


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
            self.name = f"{self.name}: {_told(self.names)}"
            self._numbers = {name: number for number, name in enumerate(self.names)}

    def learned(self, corpus: Corpus, opening: OpenContext) -> TextClasses:
        """Return the map with the names of the classes that a corpus has."""
        if self.names is not None:
            return self
        return TextClasses(self.stream, classes_of(corpus, self.stream, opening).names)

    def classes(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of the classes, by stream."""
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

    def __repr__(self) -> str:
        return f"classes({self.stream!r})"


def classes(stream: str, names: Sequence[str] | None = None) -> TextClasses:
    """Return a map that makes numbers of texts, such as labels, for `Deserializer.map`.

    The names of the classes are kept: in ``source.streams[stream].classes``, by their numbers,
    and in the fingerprint of a state, so that a run goes on with the same numbers or not at
    all.

    Parameters
    ----------
    stream : str
        A stream of texts, or of integers or bools; without ``names`` of one sample a sequence.
    names : sequence of str, optional
        The classes of numbers 0, 1, ...; any other text is a `DataError`. By default all
        classes of the corpus, integers ascending and then texts in alphabetical order: they
        are found when it is opened, in one pass that is kept beside the index of files. Files
        of validation that are mapped by themselves take the names of the training data.

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
        twice = next((name for name in names if list(names).count(name) > 1), None)
        problem = f"{twice!r} comes twice" if names else "got none"
        raise ValueError(f"names are those of the classes, one each: {problem}")
    return TextClasses(stream, names)


def _told(names: Sequence[str]) -> str:
    """Return the names in a few words, from which follows which they are."""
    listed = ", ".join(names)
    if len(listed) <= _MOST_WORDS and not any("," in name for name in names):
        return listed
    digest = blake2b("\0".join(names).encode("utf-8", "surrogateescape"), digest_size=8)
    return f"{len(names)} #{digest.hexdigest()}"
