"""The encoding of one conversation: its tokens, and those that a loss is taken on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand.chat.conversation import Message, is_trained
from sweephand.chat.template import Span, are_apart
from sweephand.chat.tokens import TextTokens, text_tokens
from sweephand.errors import shown

Tokens = tuple[NDArray[np.int32], NDArray[np.bool_]]
"""Tokens, and the mask of those that a loss is taken on."""

TrainOn = Literal["assistant", "last", "all"] | Callable[[Message], bool]

_MOST_CHECKED = 16  # conversations of a process that are compared with the tokenizer's own way


class ConversationEncoder:
    """Encode conversations by a tokenizer, or by a function of messages.

    Parameters
    ----------
    tokenizer : tokenizer or callable
    template : str, optional
        In place of the tokenizer's own.
    train_on : {"assistant", "last", "all"} or callable
        Messages that a loss is taken on; a function says it of a message.
    tools : sequence of dict, optional
        The functions that the template is given.

    Attributes
    ----------
    digest : str
        Of all that decides what is made of a conversation.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: str | None = None,
        train_on: TrainOn = "assistant",
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        if not callable(train_on) and train_on not in ("assistant", "last", "all"):
            raise ValueError(
                "train_on is 'assistant', 'last', 'all' or a function of a message, got "
                f"{shown(train_on)}"
            )
        is_tokenizer = hasattr(tokenizer, "apply_chat_template") or hasattr(tokenizer, "to_str")
        self._function: Callable[..., Any] | None = None
        self._texts: TextTokens | None = None
        if callable(tokenizer) and not is_tokenizer:
            self._function = tokenizer
            described = getattr(tokenizer, "__qualname__", type(tokenizer).__qualname__)
        else:
            self._texts = text_tokens(tokenizer, template)
            described = self._texts.digest
        self._train_on, self._tools = train_on, None if tools is None else list(tools)
        chosen = getattr(train_on, "__qualname__", train_on)
        identity = repr((described, chosen, self._tools))
        self.digest = blake2b(identity.encode(), digest_size=8).hexdigest()
        self._num_checked = 0

    def __call__(self, messages: Sequence[Message]) -> Tokens:
        """Return the tokens of a conversation and its mask.

        ValueError if no mask fits, or it is no conversation.
        """
        return self.encode(messages, self._trained(messages))

    def encode(self, messages: Sequence[Message], trained: Sequence[int]) -> Tokens:
        """Return the tokens and the mask of the messages with these numbers."""
        if self._function is not None:
            return _checked(self._function(messages))
        assert self._texts is not None
        texts = self._texts
        text, marked = texts.template.render(messages, self._tools)
        tokens, mask = texts.encode(text, self._spans(texts, messages, trained, text, marked))
        self._compare(texts, messages, text, tokens)
        return tokens, mask

    def _trained(self, messages: Sequence[Message]) -> list[int]:
        """Return the numbers of the messages that a loss is taken on."""
        if callable(self._train_on):
            chosen = [n for n, one in enumerate(messages) if self._train_on(one)]
        elif self._train_on == "all":
            return list(range(len(messages)))
        else:
            chosen = [n for n, one in enumerate(messages) if one["role"] == "assistant"]
            if self._train_on == "last":
                chosen = chosen[-1:]
        return [number for number in chosen if is_trained(messages[number])]

    def _spans(
        self,
        texts: TextTokens,
        messages: Sequence[Message],
        trained: Sequence[int],
        text: str,
        marked: Sequence[Span],
    ) -> Sequence[Span]:
        """Return the parts of the text of messages that a loss is taken on."""
        if self._train_on == "all" and len(trained) == len(messages):
            if all(map(is_trained, messages)):
                return [(0, len(text))]
            trained = [number for number in trained if is_trained(messages[number])]
            return texts.template.answers(messages, self._tools, trained, text)
        answers = [n for n, one in enumerate(messages) if one["role"] == "assistant"]
        if not (texts.template.marks_answers and set(trained) <= set(answers)):
            return texts.template.answers(messages, self._tools, trained, text)
        if not are_apart(marked):
            raise ValueError("the chat template marks answers within answers")
        if len(marked) == len(answers):
            return [span for n, span in zip(answers, marked, strict=True) if n in trained]
        if list(trained) == answers:
            return marked  # answers in pieces, or left out
        raise ValueError(
            f"the chat template marks {len(marked)} answers of {len(answers)}, so that it is "
            "not known which are to be trained on; train_on='assistant' takes all"
        )

    def _compare(
        self,
        texts: TextTokens,
        messages: Sequence[Message],
        text: str,
        tokens: NDArray[np.int32],
    ) -> None:
        """Compare the first conversations with the tokenizer's own encoding."""
        if texts.check is None or self._num_checked >= _MOST_CHECKED:
            return
        self._num_checked += 1
        own_text, own_ids = texts.check(messages, self._tools)
        if text != own_text or tokens.tolist() != list(own_ids):
            raise ValueError(
                "the tokenizer's apply_chat_template writes the conversation otherwise than "
                "its template says; give a function that returns tokens and mask"
            )


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
    return tokens.astype(np.int32), mask.astype(np.bool_)
