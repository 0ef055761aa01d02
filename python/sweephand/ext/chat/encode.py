"""Maps of conversations, and of pairs of them, to tokens and loss masks; what they show."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import Key
from sweephand.ext.chat.conversation import Message, conversation_of, has_loss, pair_of
from sweephand.ext.chat.template import Span, TextTokens
from sweephand.extend import KnownMap, check_int, printable, shown

if TYPE_CHECKING:
    from sweephand.extend import SourceData

Tokens = tuple[NDArray[np.int32], NDArray[np.bool_]]
"""Tokens, and where a loss is taken on them."""

TrainOn = Literal["assistant", "last", "all"] | Callable[[Message], bool]

_MOST_CHECKED = 16  # conversations of a process that are compared with the tokenizer's own way


class ConversationEncoder:
    """Encode conversations by a tokenizer, or by a function; the arguments are `encode`'s."""

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
        # As JSON has them.
        self._tools = (
            None if tools is None else json.loads(json.dumps(list(tools), allow_nan=False))
        )
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
        return [number for number in chosen if has_loss(messages[number])]

    def _spans(
        self,
        messages: Sequence[Message],
        trained: list[int],
        text: str,
        marked: Sequence[Span],
    ) -> list[Span]:
        """Return the parts of the text that a loss is taken on."""
        if self._train_on == "all" and len(trained) == len(messages):
            return [(0, len(text))]
        answers, template = _answers(messages), self._texts.template
        if not (template.marks_answers and set(trained) <= set(answers)):
            spans = template.answers(messages, self._tools, trained, text)
            return [self._texts.without_blanks(text, span) for span in spans]
        if len(marked) == len(answers):
            return [span for n, span in zip(answers, marked, strict=True) if n in trained]
        if trained == answers:
            return list(marked)  # answers in pieces, or left out
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
    return tokens.astype(np.int32), mask != 0


Truncate = Literal["end", "start", "drop", "error"]

TOKENS, LOSS_MASK, PART = "tokens", "loss_mask", "part"


class EncodedMap(KnownMap):
    """A map of conversations to tokens, as `encode` and `encode_pairs` make it.

    `read` returns the conversations of a sequence, one or a pair, and how many messages of each
    are a prompt.
    """

    size = "measured"

    def __init__(
        self,
        name: str,
        encoder: ConversationEncoder,
        read: Callable[[Mapping[str, Any]], tuple[Sequence[Sequence[Message]], int]],
        *,
        max_length: int | None,
        truncate: Truncate,
        has_parts: bool = False,
    ) -> None:
        if max_length is not None:
            check_int("max_length", max_length, 1, 2**31)
        if truncate not in ("end", "start", "drop", "error"):
            raise ValueError(
                f"truncate is 'end', 'start', 'drop' or 'error', got {shown(truncate)}"
            )
        self.encoder, self._read = encoder, read
        self.functions = encoder.functions
        self._most, self._how = max_length, truncate
        self._declared = {"loss_mask": LOSS_MASK}
        if has_parts:
            self._declared["parts"] = PART
        lengths = "whole" if max_length is None else f"{truncate} {max_length}"
        self.name = f"{name} {encoder.digest} {lengths}"

    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> Any:
        """Return tokens, mask and parts; no sequence if it is left out."""
        conversations, num_prompt = self._read(sequence)
        found = [self.encoder(one, num_prompt) for one in conversations]
        most = max(len(tokens) for tokens, _ in found)
        if self._most is not None and most > self._most:
            if self._how == "drop":
                return []
            if self._how == "error":
                raise ValueError(
                    f"the conversation has {most} tokens, more than max_length={self._most}"
                )
            kept = slice(self._most) if self._how == "end" else slice(-self._most, None)
            found = [(tokens[kept], mask[kept]) for tokens, mask in found]
        tokens, masks = zip(*found, strict=True)
        made = {TOKENS: np.concatenate(tokens), LOSS_MASK: np.concatenate(masks)}
        if "parts" in self._declared:
            made[PART] = np.repeat(np.arange(len(found), dtype=np.uint8), [*map(len, tokens)])
        return made

    def declared(self, stream: str) -> Mapping[str, str]:
        """Return the fields that `StreamInfo` is to have of a stream."""
        return self._declared if stream == TOKENS else {}

    def __repr__(self) -> str:
        return self.name.partition(" ")[0]


def encode(
    tokenizer: Any,
    messages: str = "messages",
    *,
    template: str | None = None,
    max_length: int | None = None,
    truncate: Truncate = "end",
    train_on: TrainOn = "assistant",
    tools: Sequence[Mapping[str, Any]] | None = None,
    date: str | dt.date | None = None,
    special_tokens: Mapping[str, str] | None = None,
) -> EncodedMap:
    """Return a map of conversations to tokens and a loss mask, for `Deserializer.map`.

    It makes the streams ``tokens``, int32, and ``loss_mask``, bool, of one length.
    `MinibatchData.labels` of the tokens heeds the mask, and how many labels count in a step is
    known before it is read. With ``cache=True`` conversations are encoded once, and kept for
    every later start with the same tokenizer, template and options.

    Parameters
    ----------
    tokenizer : tokenizer or callable
        Of `tokenizers`, or a fast one of `transformers`, without its truncation and padding;
        or a function of the list of messages that returns tokens and mask, two lists of one
        length.
    messages : str
        The stream of the conversations: lists of messages with ``role`` and ``content``, also
        as JSON. Where there is none, ``conversations`` with ``from`` and ``value`` (ShareGPT)
        are read, or ``instruction``, ``input`` and ``output`` (Alpaca), or ``prompt`` and
        ``completion``, messages or texts, of which the prompt is not trained on. A message
        with ``weight`` or ``loss_mask`` 0 is not either.
    template : str, optional
        A chat template in Jinja; by default the tokenizer's own. Text within
        ``{% generation %}`` is an answer. Without such blocks an answer is what a message adds
        to the text of the prompt before it, without blanks that follow the end of the turn; a
        template that writes earlier messages anew is refused. Content that is null writes
        nothing; a list of parts is their text, unless the template goes through parts.
    max_length : int, optional
        Tokens that a conversation may have.
    truncate : {"end", "start", "drop", "error"}
        The part that is cut off longer ones, the end or the start; or they are left out, or an
        error.
    train_on : {"assistant", "last", "all"} or callable
        Messages that a loss is taken on: all answers, the last one, or everything; a function
        says it of a message.
    tools : sequence of dict, optional
        Functions that the template is given.
    date : date, datetime or str, optional
        The date for templates that ask for it; without it such a template is refused.
    special_tokens : dict of str, optional
        Tokens that a template writes by names, such as ``{"bos_token": "<s>"}``, beside those
        that the tokenizer names; one that nobody knows is refused.

    Examples
    --------
    >>> import sweephand as sh
    >>> def spell(messages):  # a tokenizer of letters
    ...     text = [(ord(c), m["role"] == "assistant") for m in messages for c in m["content"]]
    ...     return [token for token, _ in text], [is_answer for _, is_answer in text]
    >>> rows = [{"messages": [{"role": "user", "content": "hi"},
    ...                       {"role": "assistant", "content": "yes"}]}]
    >>> corpus = sh.MapDeserializer(rows).map(sh.chat.encode(spell))
    >>> source = sh.MinibatchSource(corpus, layout=sh.Packed(8), max_sweeps=1)
    >>> minibatch = source.next_minibatch(8)
    >>> minibatch["tokens"].labels()
    array([[-100,  121,  101,  115, -100, -100, -100, -100]])
    >>> minibatch.global_num_label_samples
    3
    """
    if not isinstance(messages, str):
        raise TypeError(f"messages is the name of a stream, got {shown(messages)}")
    return EncodedMap(
        f"chat.encode {messages}",
        ConversationEncoder(tokenizer, template, train_on, tools, date, special_tokens),
        partial(conversation_of, column=messages),
        max_length=max_length,
        truncate=truncate,
    )


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
    date: str | dt.date | None = None,
    special_tokens: Mapping[str, str] | None = None,
) -> EncodedMap:
    """Return a map of pairs to the tokens of both conversations, for `Deserializer.map`.

    A pair is one sequence, so that both are in one minibatch: first the prompt with the answer
    that was chosen, then the prompt with the one that was rejected. The streams are ``tokens``,
    int32, ``loss_mask``, bool, True in the answers, and ``part``, uint8, 0 in the first
    conversation and 1 in the second: each is a segment of its own in packed rows.

    Parameters
    ----------
    tokenizer, template, tools, date, special_tokens
        As in `encode`.
    prompt, chosen, rejected : str
        Streams of messages, also as JSON, or of text. Without a stream of prompts, the
        messages with which both conversations begin are the prompt.
    max_length : int, optional
        Tokens that each of both conversations may have.
    truncate : {"end", "start", "drop", "error"}
        As in `encode`; a pair of which one is dropped is left out.

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
    columns = (prompt, chosen, rejected)
    return EncodedMap(
        f"chat.encode_pairs {' '.join(columns)}",
        ConversationEncoder(tokenizer, template, "assistant", tools, date, special_tokens),
        partial(pair_of, columns=columns),
        max_length=max_length,
        truncate=truncate,
        has_parts=True,
    )


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
