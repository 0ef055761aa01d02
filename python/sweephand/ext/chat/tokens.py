"""Tokenizers as the encoder of conversations uses them, and the tokens of parts of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.chat.conversation import Message
from sweephand.ext.chat.template import ChatTemplate, Span
from sweephand.extend import shown


class TextTokens:
    """A tokenizer of `tokenizers` or `transformers` with its chat template.

    TypeError if it is none; ValueError if there is no template, or it writes special tokens
    that neither the tokenizer nor `special_tokens` names.

    Attributes
    ----------
    template : ChatTemplate
    digest : str
        Of all that decides the ids and the template.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: str | None,
        special_tokens: Mapping[str, str],
        date: datetime | None,
    ) -> None:
        self._own: Any = None  # of transformers
        known: Mapping[str, object] = {}
        if hasattr(tokenizer, "apply_chat_template"):
            self._own, known = tokenizer, tokenizer.special_tokens_map
            if template is None and getattr(tokenizer, "chat_template", None):
                template = tokenizer.get_chat_template()
        elif not (hasattr(tokenizer, "encode") and hasattr(tokenizer, "to_str")):
            raise TypeError(
                "tokenizer is one of tokenizers or transformers, or a function of messages "
                f"that returns tokens and mask; got {shown(tokenizer)}"
            )
        if template is None:
            raise ValueError(
                "the tokenizer has no chat template: give one, template='...', in Jinja with "
                "{% generation %} around answers"
            )
        texts = {name: text for name, text in known.items() if isinstance(text, str)}
        self.template = ChatTemplate(template, {**texts, **special_tokens}, date)
        if self._own is None or getattr(tokenizer, "is_fast", False):
            self._tokenizer = _without_state(getattr(tokenizer, "backend_tokenizer", tokenizer))
            added = self._tokenizer.get_added_tokens_decoder()
            described = self._tokenizer.to_str()
        else:
            self._tokenizer = tokenizer
            added = getattr(tokenizer, "added_tokens_decoder", {})
            described = repr(sorted(tokenizer.get_vocab().items()))
        self._added = tuple(text for one in added.values() if (text := str(one)))
        identity = repr((described, *self.template.identity))
        self.digest = blake2b(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        for name, text in special_tokens.items():
            if text and (count := len(_ids(self._encode(text)))) != 1:
                raise ValueError(
                    f"special_tokens: {name} is {shown(text)}, which is {count} tokens of the "
                    "tokenizer and not one: add it (add_special_tokens), or give one it has"
                )

    def encode(
        self, text: str, spans: Sequence[Span]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the tokens of a text, and which of them are in the spans.

        ValueError if a token is partly within a span.
        """
        found = self._encode(text)
        ids = _ids(found)
        mask = np.zeros(len(ids), np.bool_)
        for begin, end in spans:
            if begin < end:
                first = self._border(text, begin, found, ids)
                mask[first : self._border(text, end, found, ids)] = True
        return ids, mask

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, special ones included."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text

    def encoded_by_itself(
        self, messages: Sequence[Message], tools: Sequence[object] | None
    ) -> tuple[str, list[int]] | None:
        """Return text and ids as a tokenizer of `transformers` makes them; None for others."""
        if self._own is None or self.template.date is not None:  # it asks the clock
            return None
        text = self._own.apply_chat_template(
            messages,
            tokenize=False,
            tools=tools,
            chat_template=self.template.source,
            **self.template.special_tokens,
        )
        return text, list(self._own(text, add_special_tokens=False)["input_ids"])

    def without_blanks(self, text: str, span: Span) -> Span:
        """Return a part without the blanks that follow the end of its turn."""
        stripped = text[slice(*span)].rstrip()
        return (span[0], span[0] + len(stripped)) if stripped.endswith(self._added) else span

    def _encode(self, text: str) -> Any:
        """Return the tokens of a text, as a list if their places in it are not known."""
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _border(self, text: str, at: int, found: Any, ids: NDArray[np.int32]) -> int:
        """Return the number of tokens before a place in the text."""
        if at in (0, len(text)):
            return len(ids) if at else 0
        number: int | None = None if isinstance(found, list) else found.char_to_token(at)
        if number:
            one, before = (found.token_to_chars(n) or (-1, -1) for n in (number, number - 1))
            if one[0] == at == before[1]:
                return number
        # Blanks that no token says to be its own: do the tokens before the place remain?
        begin = _ids(self._encode(text[:at]))
        if not np.array_equal(begin, ids[: len(begin)]):
            raise ValueError(
                f"a token is partly within an answer, at {text[max(0, at - 12) : at + 12]!r}, "
                "so that no mask fits; let the template end with a special token before "
                "answers, or give a function that returns tokens and mask"
            )
        return len(begin)


def _ids(found: Any) -> NDArray[np.int32]:
    return np.array(found if isinstance(found, list) else found.ids, np.int32)


def _without_state(tokenizer: Any) -> Any:
    """Return a tokenizer of `tokenizers` of our own that neither cuts nor fills."""
    if any(getattr(tokenizer.model, name, None) for name in ("dropout", "alpha", "nbest_size")):
        raise ValueError(
            "the tokenizer's model draws its tokens (dropout, alpha or nbest_size), so that "
            "they would be others at every call: set these to None"
        )
    made = type(tokenizer).from_str(tokenizer.to_str())
    made.no_truncation()
    made.no_padding()
    return made
