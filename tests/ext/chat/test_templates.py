"""Templates in the ways of well-known models, as ``apply_chat_template`` documents them."""

# ruff: noqa: E501 - a template has no line ends

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import sweephand as sh

tokenizers = pytest.importorskip("tokenizers")
jinja2 = pytest.importorskip("jinja2")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DATE = datetime(2026, 7, 26)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
CALLS = (
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}"
    "{{ c.function.arguments | tojson }}</tool_call>{% endfor %}"
)
PARTS = (
    "{% if m.content is string %}{{ m.content | trim }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'text' %}{{ part.text | trim }}{% endif %}{% endfor %}{% endif %}"
)
# «» are around what the model writes.
TEMPLATES = {
    "Qwen": (
        "{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>"
        "{{ m.content }}</tool_response><|im_end|>\n{% elif m.role == 'assistant' %}"
        "{{ '<|im_start|>assistant\n' }}«{% if m.content %}{{ m.content }}{% endif %}" + CALLS +
        "<|im_end|>»{{ '\n' }}{% else %}{{ '<|im_start|>' + m.role + '\n' + m.content + "
        "'<|im_end|>\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    "Llama 2": (
        "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
        "{% set system = '<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' %}"
        "{% else %}{% set loop_messages = messages %}{% set system = '' %}{% endif %}"
        "{% for m in loop_messages %}{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' +"
        " (system if loop.first else '') + m['content'].strip() + ' [/INST]' }}"
        "{% else %}«{{ ' ' + m['content'].strip() + ' ' + eos_token }}»{% endif %}{% endfor %}"
    ),
    "Llama 3": (
        "{{ bos_token }}{% if not date_string is defined %}"
        "{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
        "<|start_header_id|>system<|end_header_id|>\n\nToday Date: {{ date_string }}<|eot_id|>"
        "{% for m in messages %}<|start_header_id|>{{ 'ipython' if m.role == 'tool' else m.role "
        "}}<|end_header_id|>{{ '\n\n' }}{% if m.role == 'assistant' %}«{% if 'tool_calls' in m %}"
        + CALLS + "{% else %}{{ m['content'] | trim }}{% endif %}<|eot_id|>»{% else %}"
        "{{ m['content'] | trim + '<|eot_id|>' }}{% endif %}{% endfor %}{% if "
        "add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
        "{% endif %}"
    ),
    "Mistral": (
        NO_SYSTEM + "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}"
        "{{ '[INST] ' + m['content'] + '[/INST]' }}{% elif m.tool_calls is defined and "
        "m.tool_calls is not none %}«{{ '[TOOL_CALLS]' }}" + CALLS + "{{ eos_token }}»"
        "{% elif m['role'] == 'tool' %}[TOOL_RESULTS] {{ {'content': m.content} | tojson }}"
        "[/TOOL_RESULTS]{% else %}«{{ ' ' + m['content'] | trim + eos_token }}»{% endif %}"
        "{% endfor %}"
    ),
    "Gemma": (
        NO_SYSTEM + "{{ bos_token }}{% for m in messages %}"
        "<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}{{ '\n' }}"
        "{% if m['role'] == 'assistant' %}«" + PARTS + "<end_of_turn>»{% else %}" + PARTS +
        "<end_of_turn>{% endif %}{{ '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
    ),
    "Phi-3": (
        "{% for m in messages %}{% if m['role'] == 'assistant' %}{{ '<|assistant|>\n' }}"
        "«{{ m['content'] + '<|end|>' }}»{{ '\n' }}{% else %}{{ '<|' + m['role'] + '|>\n' + "
        "m['content'] + '<|end|>\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}"
        "<|assistant|>\n{% endif %}"
    ),
    "DeepSeek": (
        "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}"
        "{{ '<|User|>' + m['content'] }}{% elif m['role'] == 'assistant' %}<|Assistant|>«"
        "{% if m['content'] is defined and m['content'] is not none %}{{ m['content'] }}"
        "{% endif %}" + CALLS + "<|end▁of▁sentence|>»{% else %}{{ m['content'] }}"
        "{% endif %}{% endfor %}{% if add_generation_prompt %}<|Assistant|>{% endif %}"
    ),
    "Falcon": (
        "{% for m in messages %}{{ '' if loop.first else '\n' }}{% if m['role'] == "
        "'assistant' %}Falcon:«{{ ' ' + m['content'] | trim }}»{% else %}"
        "{{ m['role'].capitalize() + ': ' + m['content'] | trim }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '\nFalcon:' }}{% endif %}"
    ),
    "Granite": (
        "<|start_of_role|>system<|end_of_role|>Today is {{ strftime_now('%B %d, %Y') }}."
        "<|end_of_text|>\n{% for m in messages %}{{ '<|start_of_role|>' + m['role'] + "
        "'<|end_of_role|>' }}{% if m['role'] == 'assistant' %}«{{ m['content'] }}" + CALLS +
        "<|end_of_text|>»{% else %}{{ m['content'] }}<|end_of_text|>{% endif %}{{ '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}"
    ),
}  # fmt: skip
TAGS = [
    ("{% generation %}", "{% endgeneration %}"),
    ("{%generation%}", "{%endgeneration%}"),
    ("{%- generation -%}", "{%- endgeneration -%}"),
    ("{%\n  generation\n%}", "{%+ endgeneration +%}"),
    ("", ""),  # answers are found without them
]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
TOKENS = (  # noqa: SIM905 - they are read, not counted
    "<s> </s> <|im_start|> <|im_end|> [INST] [/INST] <|start_header_id|> <|end_header_id|> "
    "<|eot_id|> [TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS] <start_of_turn> <end_of_turn> "
    "<|user|> <|assistant|> <|system|> <|end|> <|User|> <|Assistant|> <|end▁of▁sentence|> "
    "<|start_of_role|> <|end_of_role|> <|end_of_text|> <tool_call> </tool_call>"
).split()


def make_tokenizer() -> Any:
    """Return a tokenizer of byte pairs that knows the special tokens of all."""
    from tokenizers import decoders, models, pre_tokenizers, trainers

    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([Path(json.__file__).read_text()], trainer)
    return made


TOKENIZER = make_tokenizer()


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


ASKED = {"role": "user", "content": "how are you, é😀?"}
TALK = [
    [ASKED, {"role": "assistant", "content": "well"}],
    [
        ASKED,
        {"role": "assistant", "content": "well, None of it", "name": "x"},
        {"role": "user", "content": "why?"},
        {"role": "assistant", "content": "it rains"},
    ],
]
SYSTEM = [[{"role": "system", "content": "be nice"}, *messages] for messages in TALK]
TOOLS = [
    [
        ASKED,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call("weather", city="é"), call("post", zip="8", plan={"a": 1})],
        },
        {"role": "tool", "content": "it rains", "name": "weather"},
        {"role": "assistant", "content": "it rains, None"},
    ],
]


def as_documented(template: str, messages: Any) -> tuple[list[int], list[bool]]:
    """Return tokens and mask as transformers documents ``apply_chat_template``.

    Keys of messages that are null are dropped, and tokens that overlap with what is generated
    are in the mask.
    """
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(reason: str) -> None:
        raise jinja2.TemplateError(reason)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals |= {"raise_exception": refuse, "strftime_now": DATE.strftime}
    given = [
        {key: value for key, value in one.items() if value is not None} for one in messages
    ]
    marked = environment.from_string(template).render(messages=given, **SPECIAL)
    text = marked.replace("«", "").replace("»", "")
    spans, place = [], 0
    for number, piece in enumerate(marked.replace("»", "«").split("«")):
        if number % 2:
            spans.append((place, place + len(piece)))
        place += len(piece)
    found = TOKENIZER.encode(text, add_special_tokens=False)
    mask = [
        any(begin < last and end > first for first, last in spans)
        for begin, end in found.offsets
    ]
    return found.ids, mask


def in_files(folder: Path, conversations: Any) -> Iterator[Any]:
    rows = [{"messages": messages} for messages in conversations]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    texts = [{"messages": json.dumps(messages)} for messages in conversations]
    pq.write_table(pa.Table.from_pylist(texts), folder / "text.parquet")
    for name in ("a.jsonl", "a.parquet", "text.parquet"):
        yield sh.open(folder / name)


def encoded(corpus: Any, template: str, **options: Any) -> list[tuple[list[int], list[bool]]]:
    options = {"date": DATE, "special_tokens": SPECIAL, **options}
    encode = sh.chat.encode(TOKENIZER, template=template, **options)
    with sh.MinibatchSource(corpus.map(encode), randomize=False, max_sweeps=1) as source:
        minibatch = source.next_minibatch(10_000)
    streams = (minibatch[name].as_sequences() for name in ("tokens", "loss_mask"))
    return [(ids.tolist(), mask.tolist()) for ids, mask in zip(*streams, strict=True)]


@pytest.mark.parametrize("name", TEMPLATES)
def test_tokens_and_masks_are_those_of_apply_chat_template(name: str, tmp_path: Path) -> None:
    template = TEMPLATES[name]
    conversations = [
        *TALK,
        *(SYSTEM if NO_SYSTEM not in template else []),
        *(TOOLS if CALLS in template else []),
    ]
    wanted = [as_documented(template, messages) for messages in conversations]
    assert all(any(mask) and not all(mask) for _, mask in wanted)
    for number, corpus in enumerate(in_files(tmp_path, conversations)):
        for begin, end in TAGS[number::3]:
            changed = template.replace("«", begin).replace("»", end)
            assert encoded(corpus, changed) == wanted


@pytest.mark.parametrize("name", TEMPLATES)
def test_parts_of_a_content_are_their_text(name: str, tmp_path: Path) -> None:
    template = TEMPLATES[name].replace("«", "").replace("»", "")
    parted = [
        [{**one, "content": [{"type": "text", "text": one["content"]}]} for one in messages]
        for messages in TALK
    ]
    whole = encoded(next(in_files(tmp_path, TALK)), template)
    for corpus in in_files(tmp_path, parted):
        assert encoded(corpus, template) == whole
    pictures = sh.MapDeserializer(
        [{"messages": [{"role": "user", "content": [{"type": "image"}]}]}]
    )
    if name != "Gemma":  # which takes parts as they are
        with pytest.raises(sh.DataError, match="parts that are no text"):
            encoded(pictures, template)


def test_a_date_is_given_and_part_of_the_fingerprint() -> None:
    template = TEMPLATES["Granite"].replace("«", "").replace("»", "")
    with pytest.raises(ValueError, match=r"asks for the date .*date="):
        sh.chat.encode(TOKENIZER, template=template)
    names = {
        sh.chat.encode(TOKENIZER, template=template, date=date).name
        for date in ("2026-07-26", DATE.date(), DATE, "2026-07-27")
    }
    assert len(names) == 2


def test_special_tokens_are_given_or_refused_by_name() -> None:
    template = TEMPLATES["Mistral"].replace("«", "").replace("»", "")
    with pytest.raises(ValueError, match=r"writes bos_token, .*special_tokens=\{'bos_token'"):
        sh.chat.encode(TOKENIZER, template=template, special_tokens={"eos_token": "</s>"})
    with pytest.raises(ValueError, match=r"eos_token is '<eos>', which is \d tokens"):
        sh.chat.encode(
            TOKENIZER, template=template, special_tokens={**SPECIAL, "eos_token": "<eos>"}
        )
    without = sh.chat.encode(
        TOKENIZER, template=template, special_tokens={**SPECIAL, "bos_token": ""}
    )
    tokens = without({"messages": TALK[0]})["tokens"].tolist()
    assert tokens == as_documented(template, TALK[0])[0][1:]


def test_truncation_and_padding_of_a_tokenizer_are_left_out() -> None:
    template = TEMPLATES["Qwen"].replace("«", "").replace("»", "")
    tokenizer = make_tokenizer()
    plain = sh.chat.encode(tokenizer, template=template)
    wanted = plain({"messages": TALK[0]})["tokens"].tolist()
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=400)
    stateful = sh.chat.encode(tokenizer, template=template)
    for encode in (plain, stateful):
        assert encode({"messages": TALK[0]})["tokens"].tolist() == wanted
    assert stateful.name == plain.name
    assert len(tokenizer.encode("a").ids) == 400
    tokenizer.model.dropout = 0.5
    with pytest.raises(ValueError, match="draws its tokens"):
        sh.chat.encode(tokenizer, template=template)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ raise_exception.__globals__.jinja2 }}{{ raise_exception.__code__ }}",
        "{{ raise_exception('{0.__class__}'.format(1)) }}",
        "{% set ns = namespace() %}{% set ns.__html__ = 'x'.upper %}{{ ns }}",
        "{{ namespace(__html__='x'.upper) }}",
        "{{ namespace({'__call__': dict}) }}",
        "{% include '/etc/passwd' %}",
        "{% import '/etc/passwd' as secrets %}",
        "{% extends '/etc/passwd' %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='x') }}",
        "{% for i in range(10**9) %}{% endfor %}",
        "{{ [1, 2] | random }}",
        "{{ lipsum() }}",
        "{{ 1 / 0 }}",
        "{{ 'a' + 1 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% if %}",
        "{{ " + "(" * 5000 + ")" * 5000 + " }}",
        "{% generation %}{% generation %}x{% endgeneration %}{% endgeneration %}",
    ],
)
def test_a_template_of_a_stranger_reaches_nothing_else(source: str) -> None:
    messages = [dict(one) for one in TALK[0]]
    with pytest.raises(ValueError, match="the chat template") as caught:
        sh.chat.encode(TOKENIZER, template=source)({"messages": messages})
    assert "<class" not in str(caught.value)
    assert messages == TALK[0]


def test_a_token_behind_the_last_message_alone_does_not_matter() -> None:
    template = TEMPLATES["Phi-3"].replace("«", "").replace("»", "")
    ended = template.removesuffix("{% endif %}") + "{% else %}{{ eos_token }}{% endif %}"
    encode = sh.chat.encode(TOKENIZER, template=ended, special_tokens=SPECIAL)
    found = encode({"messages": TALK[1]})
    answers = TOKENIZER.decode(found["tokens"][found["loss_mask"]], skip_special_tokens=False)
    assert answers == "well, None of it<|end|>it rains<|end|>\n</s>"


def test_tool_calls_that_a_template_never_writes_are_refused() -> None:
    encode = sh.chat.encode(
        TOKENIZER, template="{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    with pytest.raises(
        ValueError, match="message 1 is tool calls, which the chat template never"
    ):
        encode({"messages": TOOLS[0]})
