"""The encoding of one conversation: its tokens, and those that a loss is taken on."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.chat.conversation import Message, is_trained
from sweephand.ext.chat.template import Span
from sweephand.ext.chat.tokens import TextTokens
from sweephand.extend import shown

Tokens = tuple[NDArray[np.int32], NDArray[np.bool_]]
"""Tokens, and the mask of those that a loss is taken on."""

TrainOn = Literal["assistant", "last", "all"] | Callable[[Message], bool]

_MOST_CHECKED = 16  # conversations of a process that are compared with the tokenizer's own way


class ConversationEncoder:
    """Encode conversations by a tokenizer, or by a function; the arguments are `encode`'s.

    Attributes
    ----------
    digest : str
        Of all that decides what is made of a conversation, but for functions.
    functions : tuple of callable
        Those of the user that do.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: str | None = None,
        train_on: TrainOn = "assistant",
        tools: Sequence[Mapping[str, Any]] | None = None,
        date: str | dt.date | None = None,
        special_tokens: Mapping[str, str] | None = None,
    ) -> None:
        if not callable(train_on) and train_on not in ("assistant", "last", "all"):
            raise ValueError(
                "train_on is 'assistant', 'last', 'all' or a function of a message, got "
                f"{shown(train_on)}"
            )
        is_tokenizer = hasattr(tokenizer, "apply_chat_template") or hasattr(tokenizer, "to_str")
        self._function: Callable[..., Any] | None = None
        if callable(tokenizer) and not is_tokenizer:
            if template or tools or date or special_tokens:
                raise ValueError(
                    "a function that returns tokens and mask is given messages alone: no "
                    "template=, tools=, date= or special_tokens="
                )
            self._function = tokenizer
            described = getattr(tokenizer, "__qualname__", type(tokenizer).__qualname__)
        else:
            time = None if date is None else dt.datetime.fromisoformat(str(date))
            self._texts = TextTokens(tokenizer, template, special_tokens or {}, time)
            described = self._texts.digest
        self._train_on = train_on
        self._tools = None if tools is None else _plain(tools)
        chosen = "function" if callable(train_on) else train_on
        identity = repr((described, chosen, self._tools))
        self.digest = blake2b(identity.encode(), digest_size=8).hexdigest()
        self._num_checked = 0
        self.functions = tuple(one for one in (self._function, train_on) if callable(one))

    def __call__(self, messages: Sequence[Message], num_prompt: int = 0) -> Tokens:
        """Return the tokens of a conversation and its mask; the prompt has no loss.

        ValueError if no mask fits, or it is no conversation.
        """
        if self._function is not None:
            return _checked(self._function(messages))
        given = self._texts.template.messages(messages)
        text, marked = self._texts.template.render(given, self._tools)
        spans = self._spans(given, self._trained(messages, num_prompt), text, marked)
        tokens, mask = self._texts.encode(text, spans)
        if self._num_checked < _MOST_CHECKED:
            self._num_checked += 1
            own = self._texts.encoded_by_itself(given, self._tools)
            if own is not None and own != (text, tokens.tolist()):
                raise ValueError(
                    "the tokenizer's apply_chat_template writes the conversation otherwise "
                    "than its template says; give a function that returns tokens and mask"
                )
        return tokens, mask

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; their numbers if a function has made them."""
        if self._function is not None:
            return " ".join(map(str, tokens))
        return self._texts.decode(tokens)

    def _trained(self, messages: Sequence[Message], num_prompt: int) -> list[int]:
        """Return the numbers of the messages that a loss is taken on."""
        if callable(self._train_on):
            chosen = [n for n, one in enumerate(messages) if self._train_on(one)]
        elif self._train_on == "all":
            chosen = list(range(len(messages)))
        else:
            chosen = [n for n in _answers(messages) if n >= num_prompt]
            if self._train_on == "last":
                chosen = chosen[-1:]
        return [number for number in chosen if is_trained(messages[number])]

    def _spans(
        self,
        messages: Sequence[Message],
        trained: Sequence[int],
        text: str,
        marked: Sequence[Span],
    ) -> Sequence[Span]:
        """Return the parts of the text of messages that a loss is taken on."""
        if self._train_on == "all" and len(trained) == len(messages):
            return [(0, len(text))]
        answers, template = _answers(messages), self._texts.template
        if not (template.marks_answers and set(trained) <= set(answers)):
            spans = template.answers(messages, self._tools, trained, text)
            return [self._texts.without_blanks(text, span) for span in spans]
        if len(marked) == len(answers):
            return [span for n, span in zip(answers, marked, strict=True) if n in trained]
        if list(trained) == answers:
            return marked  # answers in pieces, or left out
        raise ValueError(
            f"the chat template marks {len(marked)} answers of {len(answers)}, so that it is "
            "not known which are to be trained on; train_on='assistant' takes all"
        )


def _answers(messages: Sequence[Message]) -> list[int]:
    return [number for number, one in enumerate(messages) if one["role"] == "assistant"]


def _checked(found: Any) -> Tokens:
    """Return the result of a function for a conversation, as tokens and mask."""
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise ValueError(f"the tokenizer returns tokens and mask, got {shown(found)}")
    tokens, mask = np.asarray(found[0]), np.asarray(found[1])
    if tokens.ndim != 1 or tokens.shape != mask.shape:
        raise ValueError(
            f"tokens and mask are two lists of one length, got shapes {tokens.shape} and "
            f"{mask.shape}"
        )
    if tokens.dtype.kind not in "iu" and len(tokens):
        raise ValueError(f"tokens are integers, got {tokens.dtype}")
    if (mask != mask).any():
        raise ValueError("the mask is NaN at a token: a loss is taken on it, 1, or not, 0")
    return tokens.astype(np.int32), mask.astype(np.bool_)


def _plain(tools: Sequence[object]) -> list[Any]:
    """Return tools as JSON has them."""
    found: list[Any] = json.loads(json.dumps(list(tools), allow_nan=False))
    return found
