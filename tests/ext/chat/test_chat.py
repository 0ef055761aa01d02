"""Conversations as tokens: masks are right to the token, or the conversation is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh

tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

BEGIN, END = "<|im_start|>", "<|im_end|>"
PLAIN = (
    "{% for m in messages %}" + BEGIN + "{{ m['role'] }}\n{{ m['content'] }}" + END + "\n"
    "{% endfor %}{% if add_generation_prompt %}" + BEGIN + "assistant\n{% endif %}"
)
MARKED = (
    "{% for m in messages %}" + BEGIN + "{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] }}" + END
    + "{% endgeneration %}{% else %}{{ m['content'] }}" + END + "{% endif %}\n"
    "{% endfor %}{% if add_generation_prompt %}" + BEGIN + "assistant\n{% endif %}"
)  # fmt: skip
# Drops what was thought in earlier answers, as templates of reasoning models do.
REWRITING = (
    "{% for m in messages %}" + BEGIN + "{{ m['role'] }}\n"
    "{% if loop.last %}{{ m.get('thought', '') }}{% endif %}{{ m['content'] }}" + END + "\n"
    "{% endfor %}{% if add_generation_prompt %}" + BEGIN + "assistant\n{% endif %}"
)
OPEN = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"  # noqa: E501


def make_tokenizer(trim: bool = True) -> Any:
    """Return a tokenizer of bytes pairs, trained on a module of the standard library."""
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=trim)
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([Path(json.__file__).read_text()], trainer)
    return made


TOKENIZER, UNTRIMMED = make_tokenizer(), make_tokenizer(trim=False)


def message(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


CONVERSATION = [
    message("system", "be nice"),
    message("user", "hello é😀"),
    message("assistant", "how are you"),
    message("user", "  x "),
    message("assistant", " ok 😀"),
]


def encoded(messages: Any, tokenizer: Any = TOKENIZER, **options: Any) -> tuple[Any, Any]:
    options.setdefault("template", PLAIN)
    found = sh.chat.encode(tokenizer, **options)({"messages": messages})
    assert list(found) == ["tokens", "loss_mask"]
    assert (found["tokens"].dtype, found["loss_mask"].dtype) == (np.int32, np.bool_)
    return found["tokens"], found["loss_mask"]


def answers(messages: Any, **options: Any) -> str:
    tokens, mask = encoded(messages, **options)
    return str(TOKENIZER.decode(tokens[mask].tolist(), skip_special_tokens=False))


texts = st.text(
    st.sampled_from("ab \n\t.,é😀") | st.characters(exclude_categories=["Cs"]), max_size=12
)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    turns = draw(st.lists(st.tuples(texts, texts), min_size=1, max_size=3))
    first = draw(st.sampled_from([[], [message("system", "be nice")]]))
    both = [(message("user", asked), message("assistant", answer)) for asked, answer in turns]
    return [*first, *(one for pair in both for one in pair)]


@given(conversations(), st.sampled_from([PLAIN, MARKED]), st.booleans())
def test_the_mask_is_that_of_the_pieces_encoded_apart(
    messages: list[dict[str, Any]], template: str, trims: bool
) -> None:
    tokenizer = TOKENIZER if trims else UNTRIMMED
    tokens, mask = encoded(messages, tokenizer, template=template)
    expected: list[int] = []
    is_on: list[bool] = []
    for one in messages:
        parts = [
            (f"{BEGIN}{one['role']}\n", False),
            (f"{one['content']}{END}", True),
            ("\n", False),
        ]
        for text, is_answer in parts:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            expected += ids
            is_on += [is_answer and one["role"] == "assistant"] * len(ids)
    if tokens.tolist() == expected:  # else pieces were merged, which is looked at below
        assert mask.tolist() == is_on
    whole = "".join(f"{one['content']}{END}" for one in messages if one["role"] == "assistant")
    assert tokenizer.decode(tokens[mask].tolist(), skip_special_tokens=False) == whole


def test_messages_are_chosen_by_role_place_weight_and_function() -> None:
    assert answers(CONVERSATION) == f"how are you{END} ok 😀{END}"
    assert answers(CONVERSATION, train_on="last") == f" ok 😀{END}"
    assert answers(CONVERSATION, template=MARKED, train_on="last") == f" ok 😀{END}"
    tokens, mask = encoded(CONVERSATION, train_on="all")
    assert mask.all()
    assert len(tokens) == len(mask)

    def of_user(one: dict[str, Any]) -> bool:
        return one["role"] == "user"

    asked = f"{BEGIN}user\nhello é😀{END}{BEGIN}user\n  x {END}"
    assert answers(CONVERSATION, train_on=of_user) == asked
    for name in ("weight", "loss_mask"):
        changed = [*CONVERSATION]
        changed[2] = {**changed[2], name: 0}
        for template in (PLAIN, MARKED):
            assert answers(changed, template=template) == f" ok 😀{END}"
        assert answers(changed, train_on="all").count("how are you") == 0


def test_templates_whose_answers_have_no_border_of_their_own_are_refused() -> None:
    spaced = [message("user", "a"), message("assistant", "the object")]
    with pytest.raises(ValueError, match="a token is partly within an answer"):
        encoded(spaced, template=OPEN)
    changed = [
        {**one, "thought": "hm "} if one["role"] == "assistant" else one for one in CONVERSATION
    ]
    with pytest.raises(ValueError, match=r"writes message 2 otherwise .*train_on='last'"):
        encoded(changed, template=REWRITING)
    assert answers(changed, template=REWRITING, train_on="last") == f"hm  ok 😀{END}"
    with pytest.raises(
        ValueError, match="the chat template refuses the conversation: no tools"
    ):
        encoded(CONVERSATION, template="{{ raise_exception('no tools') }}")


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"truncate": "end"}, slice(0, 9)),
        ({"truncate": "start"}, slice(-9, None)),
    ],
)
def test_long_conversations_are_cut(options: dict[str, Any], kept: slice) -> None:
    tokens, mask = encoded(CONVERSATION)
    cut_tokens, cut_mask = encoded(CONVERSATION, max_length=9, **options)
    assert cut_tokens.tolist() == tokens[kept].tolist()
    assert cut_mask.tolist() == mask[kept].tolist()


def test_long_conversations_are_left_out_or_refused() -> None:
    sequence = {"messages": CONVERSATION}
    assert (
        sh.chat.encode(TOKENIZER, template=PLAIN, max_length=9, truncate="drop")(sequence) == []
    )
    with pytest.raises(ValueError, match="tokens, more than max_length=9"):
        sh.chat.encode(TOKENIZER, template=PLAIN, max_length=9, truncate="error")(sequence)


def test_conversations_of_sharegpt_and_alpaca_are_known_by_their_columns() -> None:
    shared = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes"}]
    alike = [message("user", "hi"), message("assistant", "yes")]
    wanted = [one.tolist() for one in encoded(alike)]
    encode = sh.chat.encode(TOKENIZER, template=PLAIN)
    found = encode({"conversations": shared})
    assert [found["tokens"].tolist(), found["loss_mask"].tolist()] == wanted
    text = np.array([b"hi"], object), np.array([b""], object), np.array([b"yes"], object)
    found = encode(dict(zip(("instruction", "input", "output"), text, strict=True)))
    assert [found["tokens"].tolist(), found["loss_mask"].tolist()] == wanted
    with pytest.raises(ValueError, match="there is no column 'messages', there are: text"):
        encode({"text": text})
    with pytest.raises(ValueError, match="message 0 of 'messages' has no role"):
        encode({"messages": [{"content": "hi"}]})


def test_a_prompt_with_its_completion_is_a_conversation_with_a_loss_on_the_completion() -> None:
    asked, answer = message("user", "hi"), message("assistant", "yes")
    earlier = message("assistant", "no")
    encode = sh.chat.encode(TOKENIZER, template=PLAIN)
    for prompt, completion in [
        ("hi", "yes"),
        ([asked], [answer]),
        (json.dumps([asked]), json.dumps([answer])),
        ([asked, earlier, asked], [answer]),
    ]:
        found = encode({"prompt": prompt, "completion": completion})
        trained = found["tokens"][found["loss_mask"]].tolist()
        assert TOKENIZER.decode(trained, skip_special_tokens=False) == f"yes{END}"


CALLING = PLAIN.replace(
    "{{ m['content'] }}", "{{ m.content }}{{ (m.tool_calls or '') | tojson }}"
)


@pytest.mark.parametrize(
    "said",
    [
        {"from": "function_call", "value": '{"name": "f", "arguments": {"a": 1}}'},
        {"from": "function_call", "value": '[{"name": "f", "arguments": {"a": 1}}]'},
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "f", "arguments": {"a": 1}},
        },
    ],
)
def test_function_calls_are_the_tool_calls_that_templates_know(said: dict[str, Any]) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    asked = {"from": "human", "value": "hi"}
    told = {"from": "observation", "value": "7"}
    encode = sh.chat.encode(TOKENIZER, template=CALLING)
    found = encode({"conversations": [asked, said, told]})
    wanted = [
        message("user", "hi"),
        {"role": "assistant", "tool_calls": [call]},
        message("tool", "7"),
    ]
    tokens, mask = encoded(wanted, template=CALLING)
    assert [found[name].tolist() for name in found] == [tokens.tolist(), mask.tolist()]
    assert mask.any()
    with pytest.raises(ValueError, match="message 0 of 'conversations' calls a function"):
        encode({"conversations": [{"from": "function_call", "value": "f(1)"}]})


@pytest.mark.parametrize("weight", [0.5, float("nan"), 2, "1", [1]])
def test_a_loss_that_is_neither_on_nor_off_is_refused(weight: object) -> None:
    for name in ("weight", "loss_mask"):
        with pytest.raises(ValueError, match=f"message 0.* has the {name}"):
            encoded([message("assistant", "yes", **{name: weight})])
    with pytest.raises(ValueError, match="the mask is NaN"):
        sh.chat.encode(lambda _: ([1, 2], [1, float("nan")]))({"messages": CONVERSATION})


def test_a_conversation_is_shown_with_what_has_a_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"messages": CONVERSATION}, {"messages": [message("assistant", "\x1b[31m\na\n")]}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    encode = sh.chat.encode(TOKENIZER, template=PLAIN)
    sh.chat.show(encode, sh.open(tmp_path / "a.jsonl"), 1)
    text = capsys.readouterr().out
    assert text.splitlines()[:-1] == [
        f"  {BEGIN}assistant⏎",
        "+ \\x1b[31m⏎",
        "+ a⏎",
        f"+ {END}",
        "  ⏎",
    ]
    sh.chat.show(encode, {"messages": CONVERSATION})
    text = capsys.readouterr().out
    tokens, mask = encoded(CONVERSATION)
    assert f"+ how are you{END}\n" in text
    assert text.endswith(f"{mask.sum()} of {len(tokens)} tokens are trained on\n")


@pytest.mark.parametrize("template", [PLAIN, MARKED])
def test_tokenizers_of_transformers_give_what_they_give_themselves(template: str) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer(), chat_template=template
    )
    tokens, mask = encoded(CONVERSATION, tokenizer, template=None)
    own = tokenizer.apply_chat_template(
        CONVERSATION, return_dict=True, return_assistant_tokens_mask=template == MARKED
    )
    assert tokens.tolist() == own["input_ids"]
    if template == MARKED:
        assert mask.tolist() == [bool(one) for one in own["assistant_masks"]]
    again = pickle.loads(pickle.dumps(sh.chat.encode(tokenizer)))
    assert again({"messages": CONVERSATION})["loss_mask"].tolist() == mask.tolist()


def test_a_tokenizer_that_departs_from_its_template_is_refused() -> None:
    class Departing:
        chat_template, special_tokens_map, is_fast = PLAIN, {}, True
        backend_tokenizer = TOKENIZER

        def get_chat_template(self) -> str:
            return PLAIN

        def apply_chat_template(self, messages: Any, **options: Any) -> str:
            return "something else"

        def __call__(self, text: str, **options: Any) -> dict[str, Any]:
            return {"input_ids": TOKENIZER.encode(text).ids}

    with pytest.raises(ValueError, match="writes the conversation otherwise than its template"):
        encoded(CONVERSATION, Departing(), template=None)


def test_what_is_no_tokenizer_or_option_is_refused() -> None:
    for arguments, reason in [
        (([],), "tokenizer is one of tokenizers, or a fast one of transformers"),
        ((TOKENIZER,), "has no chat template"),
    ]:
        with pytest.raises((TypeError, ValueError), match=reason):
            sh.chat.encode(*arguments)
    for options in (
        {"truncate": "x"},
        {"train_on": "x"},
        {"max_length": 0},
    ):
        with pytest.raises(ValueError, match=next(iter(options))):
            sh.chat.encode(TOKENIZER, template=PLAIN, **options)
    for found, reason in [
        (([1, 2], [1]), "two lists of one length"),
        ([1], "returns tokens and mask"),
        (([0.5], [1]), "tokens are integers"),
    ]:
        with pytest.raises(ValueError, match=reason):
            sh.chat.encode(lambda _, found=found: found)({"messages": CONVERSATION})


def test_the_name_tells_tokenizers_templates_and_options_apart() -> None:
    other = make_tokenizer()
    other.add_special_tokens(["<|x|>"])
    names = [
        sh.chat.encode(*arguments, **options).name
        for arguments, options in [
            ((TOKENIZER,), {"template": PLAIN}),
            ((TOKENIZER,), {"template": MARKED}),
            ((other,), {"template": PLAIN}),
            ((TOKENIZER, "talk"), {"template": PLAIN}),
            ((TOKENIZER,), {"template": PLAIN, "train_on": "last"}),
            ((TOKENIZER,), {"template": PLAIN, "tools": [{"name": "f"}]}),
            ((TOKENIZER,), {"template": PLAIN, "max_length": 4}),
            ((TOKENIZER,), {"template": PLAIN, "max_length": 4, "truncate": "start"}),
        ]
    ]
    assert len(set(names)) == len(names)
    assert sh.chat.encode(make_tokenizer(), template=PLAIN).name == names[0]


def chat_file(folder: Path, count: int = 200) -> Path:
    rows = [
        {
            "messages": [
                message("user", f"q{n}" * (n % 5)),
                message("assistant", "yes " * (n % 9)),
            ]
        }
        for n in range(count)
    ]
    path = folder / "chat.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_workers_encode_the_same(executor: Any, tmp_path: Path) -> None:
    corpus = sh.open(chat_file(tmp_path)).map(sh.chat.encode(TOKENIZER, template=PLAIN))
    steps = []
    for workers in (0, 2):
        with sh.MinibatchSource(
            corpus, num_map_workers=workers, map_executor=executor, max_sweeps=1
        ) as source:
            steps.append([mb["tokens"].labels().tolist() for mb in source.minibatches(500)])
    assert steps[0] == steps[1]


def test_pairs_have_both_conversations_their_masks_and_parts() -> None:
    encode = sh.chat.encode_pairs(TOKENIZER, template=PLAIN)
    asked, good, bad = (
        message("user", "hi"),
        message("assistant", "yes"),
        message("assistant", "no"),
    )
    forms: list[dict[str, Any]] = [
        {"prompt": [asked], "chosen": [good], "rejected": [bad]},
        {"chosen": [asked, good], "rejected": [asked, bad]},
        {"prompt": "hi", "chosen": "yes", "rejected": "no"},
        {"prompt": "hi", "chosen": [asked, good], "rejected": json.dumps([asked, bad])},
    ]
    whole = [encoded([asked, one]) for one in (good, bad)]
    for form in forms:
        found = encode(form)
        assert found["tokens"].tolist() == [t for tokens, _ in whole for t in tokens.tolist()]
        assert found["loss_mask"].tolist() == [m for _, mask in whole for m in mask.tolist()]
        lengths = [len(tokens) for tokens, _ in whole]
        assert found["part"].tolist() == [0] * lengths[0] + [1] * lengths[1]
    earlier = message("assistant", "earlier")
    found = encode({"prompt": [asked, earlier, asked], "chosen": [good], "rejected": [bad]})
    trained = TOKENIZER.decode(
        found["tokens"][found["loss_mask"]].tolist(), skip_special_tokens=False
    )
    assert trained == f"yes{END}no{END}"
