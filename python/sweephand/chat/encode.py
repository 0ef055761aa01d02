"""A map of conversations to tokens and loss masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from sweephand.chat.conversation import conversation_of
from sweephand.chat.encoded_map import LOSS_MASK, TOKENS, EncodedMap, Truncate
from sweephand.chat.encoder import ConversationEncoder, TrainOn
from sweephand.errors import shown
from sweephand.maps.key import Key


class ChatMap(EncodedMap):
    """A map of conversations, as `encode` makes it."""

    declares: ClassVar[Mapping[str, str]] = {"loss_mask": LOSS_MASK}

    def __init__(
        self,
        encoder: ConversationEncoder,
        max_length: int | None,
        truncate: Truncate,
        messages: str,
        unlabelled: Literal["keep", "drop"],
    ) -> None:
        super().__init__(encoder, max_length, truncate)
        self._messages, self._unlabelled = messages, unlabelled
        self.name = f"chat.encode {encoder.digest} {messages} {self.lengths} {unlabelled}"

    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> Any:
        """Return the tokens and the mask of a conversation; no sequence if it is left out."""
        found = self.cut(self.encoder(conversation_of(sequence, self._messages)))
        if found is None or (self._unlabelled == "drop" and not found[1][1:].any()):
            return []
        return {TOKENS: found[0], LOSS_MASK: found[1]}

    def __repr__(self) -> str:
        return f"chat.encode({self._messages!r})"


def encode(
    tokenizer: Any,
    messages: str = "messages",
    *,
    template: str | None = None,
    max_length: int | None = None,
    truncate: Truncate = "end",
    train_on: TrainOn = "assistant",
    tools: Sequence[Mapping[str, Any]] | None = None,
    unlabelled: Literal["keep", "drop"] = "keep",
) -> ChatMap:
    """Return a map of conversations to tokens and a loss mask, for `Deserializer.map`.

    It makes the streams ``tokens``, int32, and ``loss_mask``, bool, of one length.
    `MinibatchData.labels` of the tokens heeds the mask, and how many labels count in a step is
    known before it is read. With ``cache=True`` conversations are encoded once, and kept for
    every later start with the same tokenizer, template and options.

    Parameters
    ----------
    tokenizer : tokenizer or callable
        Of `tokenizers` or `transformers`; or a function of the list of messages that returns
        tokens and mask, two lists of one length.
    messages : str
        The stream of the conversations: lists of messages with ``role`` and ``content``. Where
        there is none, ``conversations`` with ``from`` and ``value`` (ShareGPT) are read, or
        ``instruction``, ``input`` and ``output`` (Alpaca). A message with ``weight`` or
        ``loss_mask`` 0 is not trained on.
    template : str, optional
        A chat template in Jinja; by default the tokenizer's own. What is within
        ``{% generation %}`` is an answer. Without such blocks an answer is what a message adds
        to the text of the prompt before it, without blanks that follow the end of the turn; a
        template that writes earlier messages anew is refused.
    max_length : int, optional
        Tokens that a conversation may have.
    truncate : {"end", "start", "drop", "error"}
        What is cut off longer ones, the end or the start; or they are left out, or an error.
    train_on : {"assistant", "last", "all"} or callable
        Messages that a loss is taken on: all answers, the last one, or everything; a function
        says it of a message.
    tools : sequence of dict, optional
        Functions that the template is given.
    unlabelled : {"keep", "drop"}
        Conversations without a token that a loss is taken on, of which nothing is learned.

    Returns
    -------
    callable
        A map that measures sizes.

    Raises
    ------
    TypeError
        If `tokenizer` is no tokenizer.
    ValueError
        If an option is wrong, or there is no template. A conversation of which no mask is
        known to the token is an error with its id.

    References
    ----------
    Chat templates and their ``{% generation %}``: documentation of Hugging Face's transformers.

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
    if unlabelled not in ("keep", "drop"):
        raise ValueError(f"unlabelled is 'keep' or 'drop', got {shown(unlabelled)}")
    encoder = ConversationEncoder(tokenizer, template, train_on, tools)
    return ChatMap(encoder, max_length, truncate, messages, unlabelled)
