"""Errors, with their place in the data, and foreign text made safe to print in them.

Programs tell kinds of errors apart by ``code``, which stays when names and messages change.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, Self

# Control characters, which may move the cursor, ring, or retitle a terminal; marks that turn
# the direction of text; and halves of surrogate pairs, which no terminal takes.
_UNSAFE = "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"

_LONGEST = 80  # characters of a value


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text with everything escaped that a terminal would not just show.

    Bytes that are no text, as `os.fsdecode` keeps them, become ``\xff``; `keep` stays.

    Examples
    --------
    >>> print(printable("a\x1b[31m.bin"), printable("b\udcff\n"))
    a\x1b[31m.bin b\xff\n
    """
    if text.isprintable():  # nearly always; and no memory is needed to report that none is left
        return text

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character in keep:
            return character
        if "\udc80" <= character <= "\udcff":
            return f"\\x{ord(character) - 0xDC00:02x}"
        return character.encode("unicode_escape", "surrogatepass").decode()

    return re.sub(_UNSAFE, escape, text)


def shown(value: object) -> str:
    """Return a value as an error shows it: a number or short text as it is, else its kind.

    Examples
    --------
    >>> shown(3), shown("x"), shown([1, 2]), shown(int)
    ('3', "'x'", 'list of 2', 'the class int')
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        text = printable(repr(value))
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{name} of shape {tuple(map(int, shape))}"
    if isinstance(value, list | tuple | dict | set | frozenset):
        return f"{name} of {len(value)}"
    return name


def some_of(names: Sequence[object], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


class DataError(Exception):
    """The bytes of the corpus are wrong.

    Parameters
    ----------
    reason : str
        The fault.
    file, offset : str and int, optional
        Its place, in bytes.
    chunk, stream : int and str, optional
        The chunk that was read, and the stream that was decoded.
    sequence : int or str, optional
        The sequence: its number in the chunk or file, or its id.
    line : int, optional
        The line of a text file, from 1.

    Attributes
    ----------
    code : str
        ``"damaged-data"``. Every error of the package has a code, which no version changes:
        ``"stale-data"``, ``"wrong-state"``, ``"loss-scale"``, ``"lost-worker"``, ...

    Examples
    --------
    >>> str(DataError("length checksum mismatch", "shard-3.tfrecord", 4096, None, "labels", 17))
    "shard-3.tfrecord @ 4096 [stream 'labels', sequence 17]: length checksum mismatch"
    """

    code: ClassVar[str] = "damaged-data"

    def __init__(
        self,
        reason: str,
        file: str | None = None,
        offset: int | None = None,
        chunk: int | None = None,
        stream: str | None = None,
        sequence: int | str | None = None,
        line: int | None = None,
    ) -> None:
        # All are positional arguments of the base, so that the error pickles.
        super().__init__(reason, file, offset, chunk, stream, sequence, line)
        self.reason = reason
        self.file = file
        self.offset = offset
        self.chunk = chunk
        self.stream = stream
        self.sequence = sequence
        self.line = line

    def within(
        self,
        *,
        file: str | None = None,
        offset: int | None = None,
        sequence: int | None = None,
    ) -> Self:
        """Return the same error with facts of the caller added where they are unknown."""
        return type(self)(
            self.reason,
            file if self.file is None else self.file,
            offset if self.offset is None else self.offset,
            self.chunk,
            self.stream,
            sequence if self.sequence is None else self.sequence,
            self.line,
        )

    def __str__(self) -> str:
        """Return place and reason as the C++ core writes them, with nothing unprintable."""
        where = [] if self.file is None else [printable(self.file)]
        if self.offset is not None:
            where.append(f"@ {self.offset}")
        stream = None if self.stream is None else f"'{self.stream}'"
        places = (self.line, self.chunk, stream, self.sequence)
        names = ("line", "chunk", "stream", "sequence")
        named = zip(names, places, strict=True)
        within = [f"{name} {place}" for name, place in named if place is not None]
        if within:
            where.append(printable(f"[{', '.join(within)}]"))
        reason = printable(self.reason, keep="\n\t")
        return f"{' '.join(where)}: {reason}" if where else reason


class StaleError(DataError):
    """The data changed after it was indexed or opened.

    Examples
    --------
    >>> import pathlib, sweephand as sh
    >>> path = pathlib.Path("train.jsonl")
    >>> _ = path.write_text('{"x": 1}')
    >>> source = sh.MinibatchSource(sh.open(path), num_threads=0)
    >>> _ = path.write_text('{"x": 11}')
    >>> try:
    ...     source.next_minibatch(1)
    ... except sh.StaleError as error:
    ...     print(error.file, error.reason.partition(":")[0])
    train.jsonl the file changed
    """

    code: ClassVar[str] = "stale-data"


class StateError(ValueError):
    """A checkpoint state does not fit this source, or is malformed.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"x": np.arange(4)})
    >>> state = sh.MinibatchSource(corpus, randomization_seed=1).get_checkpoint_state()
    >>> try:
    ...     sh.MinibatchSource(corpus, randomization_seed=2).restore_from_checkpoint(state)
    ... except sh.StateError as error:
    ...     print(str(error).partition(": ")[2])
    seed is 2 here and 1 in the state
    """

    code: ClassVar[str] = "wrong-state"


class SweephandHint(UserWarning):
    """A valid but probably unintended use; each source warns of each once.

    To allow it, ``warnings.simplefilter("ignore", sweephand.SweephandHint)``.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, warnings
    >>> source = sh.MinibatchSource({"x": np.arange(5)}, max_sweeps=1)
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("always")
    ...     loops = [len(list(source.minibatches(2))) for _ in range(2)]
    >>> given[0].category.__name__
    'SweephandHint'
    """

    code: ClassVar[str] = "hint"


class LossScaleError(RuntimeError):
    """Too many steps in a row were skipped because their gradients were not finite.

    Parameters
    ----------
    message : str
        The failure, with advice.
    step, scale : int and float
        The step that raised it, counted from 1, and its loss scale.
    cause : str
        ``"inf"`` or ``"nan"``.
    parameters, minibatch_ids : tuple of str
        The first parameters whose gradient was not finite, and the sequences, if known.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> weights = sh.numpy.SGD({"w": np.zeros(2, np.float32)}, 0.1)
    >>> optimizer = sh.LossScaleOptimizer(weights, max_consecutive_skips=1)
    >>> loss = optimizer.get_scaled_loss(1.0)
    >>> try:
    ...     optimizer.update([np.float32([np.inf, 1])], 1)
    ... except sh.LossScaleError as error:
    ...     print(error.step, error.cause, error.parameters)
    1 inf ('w',)
    """

    code: ClassVar[str] = "loss-scale"

    def __init__(
        self,
        message: str,
        step: int = 0,
        scale: float = 1.0,
        cause: str = "inf",
        parameters: tuple[str, ...] = (),
        minibatch_ids: tuple[str, ...] = (),
    ) -> None:
        # All are positional arguments of the base, so that the error pickles.
        super().__init__(message, step, scale, cause, parameters, minibatch_ids)
        self.step = step
        self.scale = scale
        self.cause = cause
        self.parameters = parameters
        self.minibatch_ids = minibatch_ids

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class ArgumentTypeError(TypeError, ValueError):
    """An argument of a wrong type, where users of earlier toolkits may expect either error."""

    code: ClassVar[str] = "wrong-call"


class UnquotedMessage(str):
    """A message that a KeyError shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
