"""A conversation as it is trained on, in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sweephand.ext.chat.encode import LOSS_MASK, PART, TOKENS, EncodedMap
from sweephand.extend import printable, shown

if TYPE_CHECKING:
    from sweephand.extend import SourceData


def show(encode: EncodedMap, data: SourceData | Mapping[str, Any], number: int = 0) -> None:
    """Print a conversation as it is trained on: the text of its tokens, and which have a loss.

    Lines that begin with ``+`` are trained on; line ends of the conversation are shown as
    ``⏎``. Tokens that a function has made are shown as numbers.

    Parameters
    ----------
    encode : callable
        A map that `encode` or `encode_pairs` returned.
    data : Deserializer or dict
        A corpus, or the streams of one sequence.
    number : int
        Which sequence of the corpus, as it is stored.

    Raises
    ------
    TypeError, IndexError
        If `encode` is another map, or there is no such sequence.
    ValueError
        If the conversation cannot be encoded.

    Examples
    --------
    >>> import sweephand as sh
    >>> def spell(messages):  # a tokenizer of letters
    ...     text = [(ord(c), m["role"] == "assistant") for m in messages for c in m["content"]]
    ...     return [token for token, _ in text], [is_answer for _, is_answer in text]
    >>> row = {"prompt": "hi", "completion": "yes"}
    >>> sh.chat.show(sh.chat.encode(spell), row)
      104 105
    + 121 101 115
    3 of 5 tokens are trained on
    """
    if not isinstance(encode, EncodedMap):
        raise TypeError(f"encode is what sh.chat.encode returns, got {shown(encode)}")
    found = encode(data if isinstance(data, Mapping) else _sequence(data, number))
    if not found:
        print("the conversation is left out")
        return
    tokens, mask = found[TOKENS].tolist(), found[LOSS_MASK].tolist()
    marks = list(zip(found.get(PART, mask), mask, strict=True))
    for (_, is_on), run in groupby(zip(marks, tokens, strict=True), lambda one: one[0]):
        text = encode.encoder.text([token for _, token in run])
        for line in text.replace("\n", "⏎\n").removesuffix("\n").split("\n"):
            print("+" if is_on else " ", printable(line, keep="\t"))
    print(f"{sum(mask)} of {len(tokens)} tokens are trained on")


def _sequence(data: Any, number: int) -> Mapping[str, Any]:
    from sweephand import MinibatchSource

    with MinibatchSource(data, randomize=False, max_sweeps=1, num_threads=0) as source:
        for _ in range(number):
            source.next_minibatch(1)
        minibatch = source.next_minibatch(1)
        if not minibatch:
            raise IndexError(f"there is no sequence {number}")
        found = {name: minibatch[name].as_sequences()[0] for name in minibatch}
        objects = [info.name for info in source.streams.values() if info.is_object]
        return {**found, **{name: found[name][0] for name in objects}}
