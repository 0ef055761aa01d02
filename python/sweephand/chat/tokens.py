"""Tokenizers as the encoder of conversations uses them, and the tokens of parts of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand.chat.template import ChatTemplate, Span
from sweephand.errors import shown


class Encoded(Protocol):
    """The tokens of a text, and where they are in it."""

    @property
    def ids(self) -> Sequence[int]:
        """The numbers of the tokens."""

    def char_to_token(self, at: int) -> int | None:
        """Return the token of a character; None if there is none or it is unknown."""

    def token_to_chars(self, number: int) -> Span | None:
        """Return the characters of a token."""


class TextTokens:
    """A tokenizer: texts to ids, and where each token is in its text.

    Attributes
    ----------
    template : ChatTemplate
    special : tuple of str
        The texts of special tokens, such as the end of a turn.
    digest : str
        Of all that decides the ids and the template.
    check : callable or None
        Returns text and ids of messages and tools, as the tokenizer itself makes them.
    """

    def __init__(
        self,
        encode: Callable[[str], Encoded],
        template: ChatTemplate,
        special: Sequence[str],
        described: str,
        check: Callable[..., tuple[str, list[int]]] | None = None,
    ) -> None:
        self._encode, self.template, self.check = encode, template, check
        self.special = tuple(text for text in special if text)
        identity = repr((described, template.source, sorted(template.variables.items())))
        self.digest = blake2b(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def encode(
        self, text: str, spans: Sequence[Span]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the tokens of a text, and which of them are in the spans.

        Raises
        ------
        ValueError
            If a token is partly within a span.
        """
        found = self._encode(text)
        ids = np.array(found.ids, np.int32)
        mask = np.zeros(len(ids), np.bool_)
        for begin, end in spans:
            end = self._without_blanks(text, begin, end)
            if begin < end:
                first = self._border(text, begin, found, ids)
                mask[first : self._border(text, end, found, ids)] = True
        return ids, mask

    def _without_blanks(self, text: str, begin: int, end: int) -> int:
        """Return where a part ends without the blanks that follow the end of its turn."""
        if (begin, end) == (0, len(text)):
            return end
        stripped = text[begin:end].rstrip()
        return begin + len(stripped) if stripped.endswith(self.special) else end

    def _border(self, text: str, at: int, found: Encoded, ids: NDArray[np.int32]) -> int:
        """Return the number of tokens before a place in the text."""
        if at in (0, len(text)):
            return len(ids) if at else 0
        number = found.char_to_token(at)
        if number and _edge(found, number, 0) == at == _edge(found, number - 1, 1):
            return number
        # Blanks that no token says to be its own: do the tokens before the place remain?
        before = np.array(self._encode(text[:at]).ids, np.int32)
        if not np.array_equal(before, ids[: len(before)]):
            raise ValueError(
                f"a token is partly within an answer, at {text[max(0, at - 12) : at + 12]!r}, "
                "so that no mask fits; let the template end with a special token before "
                "answers, or give a function that returns tokens and mask"
            )
        return len(before)


def _edge(found: Encoded, number: int, side: int) -> int | None:
    """Return where a token begins (side 0) or ends (1)."""
    span = found.token_to_chars(number)
    return None if span is None else span[side]


def text_tokens(tokenizer: Any, template: str | None) -> TextTokens:
    """Return a tokenizer of `tokenizers` or `transformers` in the form that is used here.

    TypeError if it is no tokenizer; ValueError if it has no chat template, and none is given.
    """
    if hasattr(tokenizer, "apply_chat_template"):
        return _of_transformers(tokenizer, template)
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "to_str"):
        if template is None:
            raise ValueError(
                "a tokenizer of tokenizers has no chat template: give one, template='...', in "
                "Jinja with {% generation %} around answers"
            )
        return TextTokens(
            partial(_encode_fast, tokenizer),
            ChatTemplate(template, {}),
            [one.content for one in tokenizer.get_added_tokens_decoder().values()],
            tokenizer.to_str(),
        )
    raise TypeError(
        "tokenizer is one of tokenizers or transformers, or a function of messages that "
        f"returns tokens and mask; got {shown(tokenizer)}"
    )


def _of_transformers(tokenizer: Any, template: str | None) -> TextTokens:
    source = template
    if source is None:
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError("the tokenizer has no chat template: give one, template='...'")
        source = tokenizer.get_chat_template()
    special = {
        name: text
        for name, text in tokenizer.special_tokens_map.items()
        if isinstance(text, str)
    }
    added = [str(one) for one in getattr(tokenizer, "added_tokens_decoder", {}).values()]
    if getattr(tokenizer, "is_fast", False):
        encode = partial(_encode_fast, tokenizer.backend_tokenizer)
        described = tokenizer.backend_tokenizer.to_str()
    else:
        encode = partial(_encode_slow, tokenizer)
        described = repr(sorted(tokenizer.get_vocab().items()))
    check = partial(_by_transformers, tokenizer, source)
    return TextTokens(encode, ChatTemplate(source, special), added, described, check)


# They are bound to a tokenizer by `partial`, so that they pickle.
def _encode_fast(tokenizer: Any, text: str) -> Encoded:
    """Encode by `tokenizers`, which finds the characters of each token."""
    found: Encoded = tokenizer.encode(text, add_special_tokens=False)
    return found


def _encode_slow(tokenizer: Any, text: str) -> Encoded:
    """Encode by a tokenizer in Python, which does not find them."""
    return _Ids(tokenizer(text, add_special_tokens=False)["input_ids"])


def _by_transformers(
    tokenizer: Any, source: str, messages: Any, tools: Any
) -> tuple[str, list[int]]:
    """Return text and ids of a conversation as a tokenizer of `transformers` makes them."""
    text = tokenizer.apply_chat_template(
        messages, tokenize=False, tools=tools, chat_template=source
    )
    return text, tokenizer(text, add_special_tokens=False)["input_ids"]


@dataclass(frozen=True)
class _Ids:
    """Tokens without known places in the text."""

    ids: Sequence[int]

    def char_to_token(self, at: int) -> int | None:
        return None

    def token_to_chars(self, number: int) -> Span | None:
        return None
