"""Maps to tokens and loss masks: their streams, and sequences that are too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from sweephand.base.checks import check_int
from sweephand.chat.encoder import ConversationEncoder, Tokens
from sweephand.errors import shown
from sweephand.maps.known_map import KnownMap

Truncate = Literal["end", "start", "drop", "error"]

TOKENS, LOSS_MASK = "tokens", "loss_mask"


class EncodedMap(KnownMap):
    """A map of conversations to tokens.

    Parameters
    ----------
    encoder : ConversationEncoder
    max_length : int or None
        Tokens that a conversation may have.
    truncate : {"end", "start", "drop", "error"}
        Treatment of conversations that have more.

    Attributes
    ----------
    declares : dict
        The streams beside the tokens, by their meaning for them.
    """

    size = "measured"
    declares: ClassVar[Mapping[str, str]]

    def __init__(
        self, encoder: ConversationEncoder, max_length: int | None, truncate: Truncate
    ) -> None:
        if max_length is not None:
            check_int("max_length", max_length, 1, 2**31)
        if truncate not in ("end", "start", "drop", "error"):
            raise ValueError(
                f"truncate is 'end', 'start', 'drop' or 'error', got {shown(truncate)}"
            )
        self.encoder = encoder
        self._most, self._how = max_length, truncate
        self.lengths = "whole" if max_length is None else f"{truncate} {max_length}"  # in names

    def cut(self, found: Tokens) -> Tokens | None:
        """Return the tokens that stay, and their mask; None if the conversation is dropped."""
        tokens, mask = found
        most = self._most
        if most is None or len(tokens) <= most:
            return found
        if self._how == "end":
            return tokens[:most], mask[:most]
        if self._how == "start":
            return tokens[-most:], mask[-most:]
        if self._how == "drop":
            return None
        raise ValueError(
            f"the conversation has {len(tokens)} tokens, more than max_length={most}"
        )

    def declared(self, stream: str) -> Mapping[str, str]:
        """Return the fields that `StreamInfo` is to have of a stream."""
        return self.declares if stream == TOKENS else {}
