"""Chat templates: conversations as text, and where in it the answers are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, NoReturn

from sweephand.base.checks import OptionalModule
from sweephand.chat.conversation import Message

jinja2: Any = OptionalModule("jinja2", extra="chat")

# Around what a template says that the model generates; removed from the text.
_BEGIN, _END = "\ue0f0\ue0f1", "\ue0f1\ue0f0"

Span = tuple[int, int]
"""A part of a text: its first character, and the one after its last."""


class ChatTemplate:
    """A template in Jinja, as tokenizers of Hugging Face have them.

    Parameters
    ----------
    source : str
    variables : dict
        Names that it may use, such as ``bos_token``.
    """

    def __init__(self, source: str, variables: Mapping[str, object]) -> None:
        self.source, self.variables = source, dict(variables)

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments: another process compiles it anew."""
        return {"source": self.source, "variables": self.variables}

    @property
    def marks_answers(self) -> bool:
        """True if it says itself which parts a model generates."""
        return "generation %}" in self.source or "generation -%}" in self.source

    @cached_property
    def _compiled(self) -> Any:
        return _environment().from_string(self.source)

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[object] | None = None,
        *,
        add_generation_prompt: bool = False,
    ) -> tuple[str, list[Span]]:
        """Return a conversation as text, and the parts that the template marks as generated.

        ValueError if the template refuses the conversation.
        """
        try:
            marked: str = self._compiled.render(
                messages=list(messages),
                tools=None if tools is None else list(tools),
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self.variables,
            )
        except jinja2.exceptions.TemplateError as error:
            raise ValueError(f"the chat template refuses the conversation: {error}") from None
        return _unmarked(marked)

    def answers(
        self,
        messages: Sequence[Message],
        tools: Sequence[object] | None,
        numbers: Sequence[int],
        whole: str,
    ) -> list[Span]:
        """Return where in the text some messages are, found by rendering what precedes them.

        An answer begins after the prompt of a generation, which ends with what precedes it; it
        ends where the text of the conversation up to it ends. `whole` is the text of all.
        ValueError if the text of a part of the conversation is not how that of the whole
        begins.
        """
        spans = []
        for number in numbers:
            is_answer = messages[number]["role"] == "assistant"
            before = ""
            if number or is_answer:
                before, _ = self.render(
                    messages[:number], tools, add_generation_prompt=is_answer
                )
            behind = whole
            if number + 1 < len(messages):
                behind, _ = self.render(messages[: number + 1], tools)
            if not (behind.startswith(before) and whole.startswith(behind)):
                raise ValueError(
                    f"the chat template writes message {number} otherwise where messages "
                    "follow it, so that it is not known which tokens are its own: take a "
                    "template with {% generation %} around answers, train_on='last', or a "
                    "function that returns tokens and mask"
                )
            spans.append((len(before), len(behind)))
        return spans


def _unmarked(marked: str) -> tuple[str, list[Span]]:
    if _BEGIN not in marked:
        return marked, []
    pieces, spans, length = [], [], 0
    rest = marked
    while True:
        text, begin, rest = rest.partition(_BEGIN)
        pieces.append(text)
        length += len(text)
        if not begin:
            break
        answer, _, rest = rest.partition(_END)
        pieces.append(answer)
        spans.append((length, length + len(answer)))
        length += len(answer)
    return "".join(pieces), spans


def _environment() -> Any:
    from jinja2.ext import Extension, loopcontrols
    from jinja2.nodes import CallBlock
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The block ``{% generation %}``."""

        tags = {"generation"}  # noqa: RUF012 - so Jinja wants it

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return CallBlock(self.call_method("marked"), [], [], body).set_lineno(line)

        def marked(self, caller: Any) -> str:
            return f"{_BEGIN}{caller()}{_END}"

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


def _to_json(value: object, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False, **options)


def _refuse(reason: str) -> NoReturn:
    raise jinja2.exceptions.TemplateError(reason)


def are_apart(spans: Sequence[Span]) -> bool:
    """Return True if parts come one after the other."""
    return all(one[1] <= other[0] for one, other in pairwise(spans))
