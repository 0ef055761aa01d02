"""The loss of pairs in packed rows is that of their conversations one by one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh

torch = pytest.importorskip("torch")
cross_entropy = torch.nn.functional.cross_entropy


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the transformer of an example, in float64."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    import packed_transformer

    torch.manual_seed(0)
    made = packed_transformer.Transformer().double()
    sys.modules.pop("packed_transformer")
    return made


def spell(messages: Any) -> tuple[list[int], list[bool]]:
    """Return the letters of messages, and which are of an answer."""
    pairs = [(ord(c) % 64, m["role"] == "assistant") for m in messages for c in m["content"]]
    return [token for token, _ in pairs], [is_answer for _, is_answer in pairs]


def test_loss_and_gradients_are_those_of_the_conversations_one_by_one(model: Any) -> None:
    rows = [
        {
            "prompt": "why? " * (1 + n % 3),
            "chosen": "because" * (1 + n % 4),
            "rejected": "no" * n,
        }
        for n in range(1, 20)
    ]
    corpus = sh.MapDeserializer(rows).map(sh.chat.encode_pairs(spell))
    source = sh.MinibatchSource(corpus, layout=sh.Packed(256), max_sweeps=1)
    step = source.next_minibatch(10**6)
    tokens, labels = step["tokens"], step["tokens"].labels()
    assert len(step.parts) == 2 * len(rows) == len(tokens.cu_seqlens) - 1
    gradients = []
    for packed in (True, False):
        model.zero_grad()
        if packed:
            logits = model(
                tokens.torch(dtype="int64"),
                sh.torch.to_tensor(step.position_ids).long(),
                sh.torch.attention_mask(step),
            )
            loss = cross_entropy(
                logits.flatten(0, 1), torch.from_numpy(labels).flatten(), reduction="sum"
            )
        else:
            loss = torch.zeros((), dtype=torch.float64)
            for row in rows:
                for answer in (row["chosen"], row["rejected"]):
                    found = spell(
                        [
                            {"role": "user", "content": row["prompt"]},
                            {"role": "assistant", "content": answer},
                        ]
                    )
                    ids, mask = torch.tensor(found[0]), torch.tensor(found[1])
                    logits = model(ids[None], torch.arange(len(ids))[None])
                    wanted = torch.where(mask, ids, -100)[1:]
                    loss = loss + cross_entropy(logits[0, :-1], wanted, reduction="sum")
        (loss / step.global_num_label_samples).backward()
        gradients.append(torch.cat([one.grad.flatten() for one in model.parameters()]))
    one, other = gradients
    assert float((one - other).abs().max()) < 1e-12 * float(other.abs().max())
    assert step.global_num_label_samples == int(np.sum(labels != -100))
