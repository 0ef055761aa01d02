"""Chat templates: conversations as text, and where in it the answers are."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.chat.conversation import Message
from sweephand.extend import OptionalModule, shown

jinja2: Any = OptionalModule("jinja2", extra="chat")

Span = tuple[int, int]
"""A part of a text: its first character, and the one after its last."""


class ChatTemplate:
    """A template in Jinja, as tokenizers of Hugging Face have them.

    It runs in Jinja's sandbox, with messages, tools and variables alone, as nobody has
    checked it.
    ValueError if it is no Jinja, or asks for tokens or a date that are not given.
    """

    def __init__(
        self, source: str, special_tokens: Mapping[str, str], date: datetime | None
    ) -> None:
        self.source, self.special_tokens, self.date = source, special_tokens, date
        self.identity = source, sorted(special_tokens.items()), str(date)
        self._variables: dict[str, Any] = dict(special_tokens)
        if date is not None:
            self._variables["strftime_now"] = date.strftime
        # Around what is generated, removed from the text; not to be guessed by a conversation.
        self._marks = tuple(f"\ue0f0{secrets.randbits(64)}{end}" for end in "\ue0f1\ue0f2")
        environment = _environment(*self._marks)
        try:
            self._compiled = environment.from_string(source)
            tree = environment.parse(source)
        except Exception as error:  # also of Python, which compiles what Jinja makes of it
            raise ValueError(f"the chat template cannot be compiled: {error}") from None
        self._check_variables(tree)
        nodes = jinja2.nodes
        self.marks_answers = tree.find(nodes.ExtensionAttribute) is not None
        self._takes_parts = _takes_parts(tree)
        named = tree.find_all((nodes.Getattr, nodes.Const))
        self._takes_calls = any(
            "tool_calls" in (getattr(one, "attr", None), getattr(one, "value", None))
            for one in named
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.special_tokens, self.date)

    def _check_variables(self, tree: Any) -> None:
        from jinja2.meta import find_undeclared_variables

        lacking = find_undeclared_variables(tree) - self._variables.keys()
        if "strftime_now" in lacking:
            raise ValueError(
                "the chat template asks for the date (strftime_now), so that tokens would be "
                "others tomorrow: give one, date='2026-11-28'"
            )
        for name in sorted(lacking):
            if name.endswith("_token") and not name.startswith("add_"):
                raise ValueError(
                    f"the chat template writes {name}, which the tokenizer does not know: give "
                    f"it, special_tokens={{{name!r}: '...'}}, or '' if nothing is to be written"
                )

    def messages(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages as the template is given them.

        Content that is None is no key, and a list of parts is their text, if the template does
        not go through parts itself. ValueError if something would not be written.
        """
        made = []
        for number, one in enumerate(messages):
            content = one["content"]
            if isinstance(content, list) and not self._takes_parts:
                content = [
                    part.get("text") if isinstance(part, dict) else part for part in content
                ]
                if not all(isinstance(text, str) for text in content):
                    raise ValueError(
                        f"message {number} has parts that are no text, and the chat template "
                        "takes text alone"
                    )
                content = "".join(content)
            if content is None and "tool_calls" in one and not self._takes_calls:
                raise ValueError(
                    f"message {number} is tool calls, which the chat template never writes"
                )
            given = {key: value for key, value in one.items() if key != "content"}
            made.append(given if content is None else {**one, "content": content})
        return made

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
            marked = self._compiled.render(
                messages=list(messages),
                tools=None if tools is None else list(tools),
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._variables,
            )
        except Exception as error:  # whatever operators and methods raise in a template
            reason = str(error) or type(error).__name__
            raise ValueError(f"the chat template refuses the conversation: {reason}") from None
        begin, end = self._marks
        text, *answers = marked.split(begin)
        spans = []
        for one in answers:
            answer, ended, rest = one.partition(end)
            if not ended:
                raise ValueError("the chat template marks answers within answers")
            spans.append((len(text), len(text) + len(answer)))
            text += answer + rest
        return text, spans

    def answers(
        self,
        messages: Sequence[Message],
        tools: Sequence[object] | None,
        numbers: Sequence[int],
        whole: str,
    ) -> list[Span]:
        """Return the ranges of messages in the text, by rendering the messages before each.

        An answer begins after the prompt of a generation, which ends with what precedes it; it
        ends where the text of the conversation up to it ends. `whole` is the text of all.
        ValueError if the text of a part of the conversation is not how that of the whole
        begins.
        """
        spans = []
        for number in numbers:
            is_answer = messages[number]["role"] == "assistant"
            before, after = "", whole
            if number or is_answer:
                before, _ = self.render(
                    messages[:number], tools, add_generation_prompt=is_answer
                )
            if number + 1 < len(messages):
                after, _ = self.render(messages[: number + 1], tools)
                if not whole.startswith(after):  # some end the last message with one more
                    after = after.removesuffix(self.special_tokens.get("eos_token", ""))
            if not (after.startswith(before) and whole.startswith(after)):
                raise ValueError(
                    f"the chat template writes message {number} otherwise where messages "
                    "follow it, so that it is not known which tokens are its own: take a "
                    "template with {% generation %} around answers, train_on='last', or a "
                    "function that returns tokens and mask"
                )
            spans.append((len(before), len(after)))
        return spans


def _takes_parts(tree: Any) -> bool:
    """Return True if a template goes through the parts of a content."""
    from jinja2 import nodes

    names = {"content"}

    def is_content(node: Any) -> bool:
        match node:
            case (
                nodes.Getattr(attr="content") | nodes.Getitem(arg=nodes.Const(value="content"))
            ):
                return True
            case nodes.Filter() | nodes.Getitem(arg=nodes.Slice()):
                return is_content(node.node)
            case nodes.CondExpr():
                return is_content(node.expr1) or is_content(node.expr2)
        return isinstance(node, nodes.Name) and node.name in names

    for one in tree.find_all(nodes.Assign):
        if isinstance(one.target, nodes.Name) and is_content(one.node):
            names.add(one.target.name)
    filters = ("map", "selectattr", "rejectattr")
    return any(is_content(one.iter) for one in tree.find_all(nodes.For)) or any(
        one.name in filters and is_content(one) for one in tree.find_all(nodes.Filter)
    )


def _environment(begin: str, end: str) -> Any:
    """Return what templates run in, as `transformers` documents it; it writes the marks."""
    from jinja2.ext import Extension, loopcontrols
    from jinja2.nodes import CallBlock
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(Extension):
        """The block ``{% generation %}``."""

        tags = {"generation"}  # noqa: RUF012 - so Jinja wants it

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return CallBlock(self.call_method("marked"), [], [], body).set_lineno(line)

        def marked(self, caller: Any) -> str:
            return f"{begin}{caller()}{end}"

    class NoMethods(Namespace):
        """A namespace whose names cannot stand for methods that Python looks for."""

        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__()
            for name, value in dict(*given, **more).items():
                self[name] = value

        def __setitem__(self, name: Any, value: Any) -> None:
            if str(name).startswith("_"):
                raise jinja2.exceptions.SecurityError(f"a namespace has no {name!r}")
            super().__setitem__(name, value)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    del environment.filters["random"], environment.globals["lipsum"]  # others at every call
    environment.filters["tojson"] = _to_json
    environment.globals["namespace"] = NoMethods
    environment.globals["raise_exception"] = _refuse
    return environment


def _to_json(value: object, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False, **options)


def _refuse(reason: str) -> NoReturn:
    raise jinja2.exceptions.TemplateError(reason)


class TextTokens:
    """A tokenizer of `tokenizers` or `transformers` with its chat template.

    TypeError if it is none; ValueError if there is no template, or it writes special tokens
    that neither the tokenizer nor `special_tokens` names.
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
        if hasattr(tokenizer, "apply_chat_template") and tokenizer.is_fast:
            self._own, known = tokenizer, tokenizer.special_tokens_map
            if template is None and getattr(tokenizer, "chat_template", None):
                template = tokenizer.get_chat_template()
        elif not hasattr(tokenizer, "to_str"):
            raise TypeError(
                "tokenizer is one of tokenizers, or a fast one of transformers, or a function "
                f"of messages that returns tokens and mask; got {shown(tokenizer)}"
            )
        if template is None:
            raise ValueError(
                "the tokenizer has no chat template: give one, template='...', in Jinja with "
                "{% generation %} around answers"
            )
        texts = {name: text for name, text in known.items() if isinstance(text, str)}
        self.template = ChatTemplate(template, {**texts, **special_tokens}, date)
        self._tokenizer = _without_state(getattr(tokenizer, "backend_tokenizer", tokenizer))
        added = self._tokenizer.get_added_tokens_decoder()
        self._added = tuple(text for one in added.values() if (text := str(one)))
        identity = repr((self._tokenizer.to_str(), *self.template.identity))
        self.digest = blake2b(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        for name, text in special_tokens.items():
            if text and (count := len(self._encode(text).ids)) != 1:
                raise ValueError(
                    f"special_tokens: {name} is {shown(text)}, which is {count} tokens of the "
                    "tokenizer and not one: add it (add_special_tokens), or give one it has"
                )

    def encode(
        self, text: str, spans: Sequence[Span]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the tokens of a text, and which of them are within a span.

        ValueError if a token is partly within a span.
        """
        found = self._encode(text)
        ids = np.array(found.ids, np.int32)
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
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _border(self, text: str, at: int, found: Any, ids: NDArray[np.int32]) -> int:
        """Return the number of tokens before a place in the text."""
        if at in (0, len(text)):
            return len(ids) if at else 0
        number: int | None = found.char_to_token(at)
        if number:
            one, before = (found.token_to_chars(n) or (-1, -1) for n in (number, number - 1))
            if one[0] == at == before[1]:
                return number
        # Blanks that no token says to be its own: do the tokens before the place remain?
        begin: list[int] = self._encode(text[:at]).ids
        if not np.array_equal(begin, ids[: len(begin)]):
            raise ValueError(
                f"a token is partly within an answer, at {text[max(0, at - 12) : at + 12]!r}, "
                "so that no mask fits; let the template end with a special token before "
                "answers, or give a function that returns tokens and mask"
            )
        return len(begin)


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
