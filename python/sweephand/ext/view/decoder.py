"""Text of token ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

from sweephand import StreamInfo
from sweephand.extend import shown

# Streams of integers beside tokens that are no tokens.
_MARKS = ("mask", "part", "parts", "position_ids", "segment_ids", "domain_ids")


class Decoder:
    """Text of token ids, by a function, a tokenizer or a vocabulary.

    A function is called with a list of ids, or with one id where it refuses a list, and returns
    text or UTF-8 bytes. Its first error is in `failure`.
    """

    def __init__(self, decode: object) -> None:
        self.failure: str | None = None
        self._takes_lists: bool | None = None
        self._texts: dict[int, str] = {}
        self._call: Callable[[Any], object]
        method = None if isinstance(decode, type) else getattr(decode, "decode", None)
        if callable(method):
            self._call = _with_special_tokens(method)
        elif callable(decode):
            self._call = decode
        elif isinstance(decode, Mapping | Sequence) and not isinstance(decode, str | bytes):
            self._call, self._takes_lists = decode.__getitem__, False
        else:
            raise TypeError(
                "decode is a function of a list of ids, a tokenizer with a method decode, or "
                f"a dict or list of texts by id, got {shown(decode)}"
            )

    def each(self, ids: Sequence[int]) -> list[str]:
        """Return the text of every id by itself; "" where there is none."""
        for number in ids:
            if number not in self._texts:
                self._texts[number] = self._text([number])
        return [self._texts[number] for number in ids]

    def whole(self, ids: Sequence[int]) -> str:
        """Return the text of consecutive ids."""
        self.each(ids[:1])  # which finds out how it is called
        return self._text(list(ids)) if self._takes_lists else "".join(self.each(ids))

    def _text(self, ids: list[int]) -> str:
        ways = [True, False] if self._takes_lists is None else [self._takes_lists]
        for takes_lists in ways:
            try:
                found = _as_text(self._call(ids if takes_lists else ids[0]))
            except Exception as error:  # of the user's function, of any kind
                reason = f"{type(error).__name__}: {error}"
            else:
                self._takes_lists = takes_lists
                return found
        self.failure = self.failure or f"decode has failed for {ids[0]}: {reason:.200}"
        return ""


def decoders_of(decode: object, streams: Sequence[StreamInfo]) -> dict[str, Decoder]:
    """Return the decoder of each stream that has a decoder, of one for all or a dict by stream.

    TypeError if it cannot decode; ValueError if it names a stream that is not there, or that
    holds no integers.
    """
    if decode is None:
        return {}
    integers = [info.name for info in streams if info.dtype.kind in "iu" and not info.shape]
    if isinstance(decode, Mapping) and any(isinstance(key, str) for key in decode):
        if unknown := [key for key in decode if key not in integers]:
            there = ", ".join(integers) or "none"
            raise ValueError(
                f"decode names {unknown[0]!r}; the streams of whole numbers are: {there}"
            )
        return {name: Decoder(one) for name, one in decode.items()}
    singles = {info.name for info in streams if info.is_single}
    tokens = [name for name in integers if name not in singles and not name.endswith(_MARKS)]
    decoder = Decoder(decode)
    return dict.fromkeys(tokens, decoder)


def _with_special_tokens(method: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return the method of a tokenizer that shows special tokens, which are borders."""
    try:
        names = signature(method).parameters
    except (TypeError, ValueError):  # of a method without a signature
        return method
    if "skip_special_tokens" not in names:
        return method
    return partial(method, skip_special_tokens=False)


def _as_text(found: object) -> str:
    if isinstance(found, bytes | bytearray):
        return found.decode("utf-8", "replace")
    if isinstance(found, str):
        return found
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str):
        return found[0]  # as convert_ids_to_tokens does
    raise TypeError(f"decode must return text, got {shown(found)}")
