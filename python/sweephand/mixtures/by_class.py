"""The classes of a corpus as corpora of a mixture."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.deserializer import Deserializer
from sweephand.errors import StaleError
from sweephand.maps import By, OpenContext, SequenceClasses, classes_of
from sweephand.mixtures.weights import Weights


class ClassifiedCorpus:
    """A corpus with the classes of its sequences, opened once for all of them."""

    def __init__(self, whole: Deserializer, by: By) -> None:
        self.whole = whole
        self.by = by
        self._opened: tuple[weakref.ref[OpenContext], Corpus, SequenceClasses] | None = None
        self.names = self.open_for(OpenContext(Ledger()))[1].names

    def open_for(self, opening: OpenContext) -> tuple[Corpus, SequenceClasses]:
        """Return the corpus and its classes; the same for the same opening."""
        if self._opened is not None and self._opened[0]() is opening:
            return self._opened[1:]
        corpus = self.whole.open_for(opening)
        if list(corpus.parts) != [""]:
            raise ValueError("a mixture is no corpus of classes: give the corpus itself")
        narrow = self.whole.of_stream(self.by) if isinstance(self.by, str) else self.whole
        looked_at = corpus if narrow is self.whole else narrow.open_for(opening)
        classes = classes_of(looked_at, self.by, opening)
        self._opened = weakref.ref(opening, self._forget), corpus, classes
        return corpus, classes

    def _forget(self, _: object) -> None:
        self._opened = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def __str__(self) -> str:
        return self.by if isinstance(self.by, str) else "function"


@dataclass(frozen=True, repr=False)
class ClassOfCorpus(Deserializer):
    """The sequences of one class."""

    of: ClassifiedCorpus
    name: str

    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read."""
        return self.open_for(OpenContext(ledger))

    def open_for(self, opening: OpenContext) -> Corpus:
        """Return the corpus as a source asks for it."""
        corpus, classes = self.of.open_for(opening)
        if classes.names != self.of.names:
            changed = sorted({*classes.names} ^ {*self.of.names})
            raise StaleError(
                f"the classes by {self.of} are others than when the mixture was made: "
                f"{', '.join(changed)[:200]}"
            )
        kept = corpus.keep(classes.of(self.name))
        return kept.named(f"class {self.name} by {self.of}")

    def _description(self) -> str:
        return f"{self.name} by {self.of}, {self.of.whole!r}"


def corpora_of(whole: Deserializer, by: By) -> dict[str, ClassOfCorpus]:
    """Return a corpus for every class, by its name.

    ValueError if a class cannot be the name of a corpus.
    """
    classified = ClassifiedCorpus(whole, by)
    for name in classified.names:
        if not name or "/" in name:
            raise ValueError(
                f"the class {name!r} cannot name a corpus, as '/' parts names from ids: give a "
                "function that returns another name, "
                "by=lambda sequence: ... .replace('/', '-')"
            )
    return {name: ClassOfCorpus(classified, name) for name in classified.names}


def weights_of(weights: Weights | Literal["equal"], names: list[str]) -> Weights:
    """Return the weights of classes, whose names may have been given as numbers.

    ValueError if it is another word than "equal".
    """
    if isinstance(weights, str):
        if weights != "equal":
            raise ValueError(f"weights are 'equal', or a dict by class, got {weights!r:.60}")
        return dict.fromkeys(names, 1)
    if isinstance(weights, Mapping):
        return {str(name): weight for name, weight in weights.items()}
    return [(at, {str(name): weight for name, weight in then.items()}) for at, then in weights]
