"""A map of preference data: a prompt with the answer that was chosen, and the one rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sweephand.chat.conversation import Message, is_trained, messages_of, text_of
from sweephand.chat.encoded_map import LOSS_MASK, TOKENS, EncodedMap, Truncate
from sweephand.chat.encoder import ConversationEncoder
from sweephand.maps.key import Key

PART = "part"


class PairMap(EncodedMap):
    """A map of pairs, as `encode_pairs` makes it."""

    declares: ClassVar[Mapping[str, str]] = {"loss_mask": LOSS_MASK, "parts": PART}

    def __init__(
        self,
        encoder: ConversationEncoder,
        max_length: int | None,
        truncate: Truncate,
        columns: tuple[str, str, str],
    ) -> None:
        super().__init__(encoder, max_length, truncate)
        self._prompt, *self._answers = columns
        self.name = f"chat.encode_pairs {encoder.digest} {' '.join(columns)} {self.lengths}"

    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> Any:
        """Return the tokens of both conversations, the mask, and the part of each token."""
        conversations, num_prompt = self._conversations(sequence)
        found = []
        for messages in conversations:
            trained = [
                number
                for number, one in enumerate(messages)
                if number >= num_prompt and one["role"] == "assistant" and is_trained(one)
            ]
            cut = self.cut(self.encoder.encode(messages, trained))
            if cut is None:
                return []
            found.append(cut)
        parts = [np.full(len(tokens), n, np.uint8) for n, (tokens, _) in enumerate(found)]
        return {
            TOKENS: np.concatenate([tokens for tokens, _ in found]),
            LOSS_MASK: np.concatenate([mask for _, mask in found]),
            PART: np.concatenate(parts),
        }

    def _conversations(
        self, sequence: Mapping[str, Any]
    ) -> tuple[Sequence[Sequence[Message]], int]:
        """Return both conversations, and how many messages of each are the prompt."""
        for name in self._answers:
            if name not in sequence:
                raise ValueError(f"there is no column {name!r}, only {', '.join(sequence)}")
        prompt = _part(sequence, self._prompt, "user") if self._prompt in sequence else []
        both = [[*prompt, *_part(sequence, name, "assistant")] for name in self._answers]
        if prompt:
            return both, len(prompt)
        common = 0
        for one, other in zip(*both, strict=False):
            if one != other:
                break
            common += 1
        return both, common

    def __repr__(self) -> str:
        return f"chat.encode_pairs({', '.join(map(repr, self._answers))})"


def _part(sequence: Mapping[str, Any], name: str, role: str) -> list[Message]:
    """Return messages of a column, which may also be the text of a single message."""
    value = sequence[name]
    if isinstance(value, list):
        return messages_of(value, name)
    return [{"role": role, "content": text_of(value)}]


def encode_pairs(
    tokenizer: Any,
    *,
    prompt: str = "prompt",
    chosen: str = "chosen",
    rejected: str = "rejected",
    template: str | None = None,
    max_length: int | None = None,
    truncate: Truncate = "end",
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> PairMap:
    """Return a map of pairs to the tokens of both conversations, for `Deserializer.map`.

    A pair is one sequence, so that both are in one minibatch: first the prompt with the answer
    that was chosen, then the prompt with the one that was rejected. The streams are ``tokens``,
    int32, ``loss_mask``, bool, True in the answers, and ``part``, uint8, 0 in the first
    conversation and 1 in the second: each is a segment of its own in packed rows.

    Parameters
    ----------
    tokenizer, template, tools
        As in `encode`.
    prompt, chosen, rejected : str
        Streams of messages, or of text. Without a stream of prompts, the messages with which
        both conversations begin are the prompt.
    max_length : int, optional
        Tokens that each of both conversations may have.
    truncate : {"end", "start", "drop", "error"}
        As in `encode`; a pair of which one is dropped is left out.

    Returns
    -------
    callable
        A map that measures sizes.

    Raises
    ------
    TypeError, ValueError
        As in `encode`.

    Examples
    --------
    >>> import sweephand as sh
    >>> def spell(messages):  # a tokenizer of letters
    ...     text = [(ord(c), m["role"] == "assistant") for m in messages for c in m["content"]]
    ...     return [token for token, _ in text], [is_answer for _, is_answer in text]
    >>> rows = [{"prompt": "hi", "chosen": "yes", "rejected": "no"}]
    >>> corpus = sh.MapDeserializer(rows).map(sh.chat.encode_pairs(spell))
    >>> sh.MinibatchSource(corpus, max_sweeps=1).next_minibatch(9)["part"].values
    array([0, 0, 0, 0, 0, 1, 1, 1, 1], dtype=uint8)
    """
    encoder = ConversationEncoder(tokenizer, template, "assistant", tools)
    return PairMap(encoder, max_length, truncate, (prompt, chosen, rejected))
