"""What a page shows of every layout."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.ext.view.conftest import LENGTHS, words
from tests.ext.view.pages import Read, read

import sweephand as sh

EVERY = [
    sh.Ragged(),
    sh.Padded(),
    sh.Padded(side="left", multiple_of=8),
    sh.Packed(48),
    sh.Packed(16, split_long="split"),
    sh.Bucketed([8, 16, 40]),
    sh.TruncatedBPTT(16),
]


def shown(layout: sh.Layout, corpus: sh.ArrayDeserializer, **options: object) -> Read:
    source = sh.MinibatchSource(corpus, layout=layout)
    return read(source.show(256, 2, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", EVERY, ids=repr)
def test_every_layout_has_facts_bars_sequences_and_tokens(
    layout: sh.Layout, tokens: sh.ArrayDeserializer
) -> None:
    page = shown(layout, tokens, decode=chr)
    source = sh.MinibatchSource(tokens, layout=layout)
    minibatch = [source.next_minibatch(256) for _ in range(3)][2]
    assert f"{minibatch.nominal_time:,}" in page.text
    assert type(layout).__name__ in page.text
    for name in minibatch.ids[:6]:
        assert name in page.text
    drawn = [found for name, found in page.elements if name == "rect" and _is_bar(found)]
    assert len(drawn) == len(minibatch.rows(0, min(24, minibatch.num_rows)).planned.sizes())


def _is_bar(found: dict[str, str]) -> bool:
    return re.fullmatch(r"c\d", found.get("class", "")) is not None


@pytest.mark.parametrize("layout", EVERY, ids=repr)
def test_the_cells_are_those_of_the_array_with_their_labels(
    layout: sh.Layout, tokens: sh.ArrayDeserializer
) -> None:
    page = shown(layout, tokens)
    source = sh.MinibatchSource(tokens, layout=layout)
    data = [source.next_minibatch(256) for _ in range(3)][2]["tokens"]
    if data.is_padded:
        row = data.asarray()[0][data.valid_mask()[0]]
        labels = data.labels()[0][data.valid_mask()[0]]
    else:
        row, labels = data.as_sequences()[0], data.labels()[: data.lengths[0]]
    expected = [
        [str(token), "-" if label == -100 else str(label)]
        for token, label in zip(row.tolist(), labels.tolist(), strict=True)
    ]
    assert page.texts("cell")[: len(expected)] == expected


def test_a_share_of_several_workers_shows_who_gets_what(tokens: sh.ArrayDeserializer) -> None:
    source = sh.MinibatchSource(tokens)
    page = read(source.show(256, num_data_partitions=4, partition_index=2))
    rows = re.findall(r"Who gets what.*?The fullest", page.text, re.DOTALL)[0]
    for worker in range(4):
        planned = next(source.plan(256, num_data_partitions=4, partition_index=worker))
        assert f"{planned.num_sequences}  {planned.num_samples}" in re.sub(r" +", "  ", rows)
    share = source.next_minibatch(256, num_data_partitions=4, partition_index=2)
    assert f"{share.num_samples} of {share.global_num_samples} over all workers" in page.text


def test_an_empty_share_and_the_end_of_data_are_said() -> None:
    corpus = sh.ArrayDeserializer({"x": np.arange(3.0)})
    source = sh.MinibatchSource(corpus, max_sweeps=1)
    assert (
        "This share is empty"
        in read(source.show(3, num_data_partitions=4, partition_index=3)).text
    )
    assert "no sequence comes here" in read(source.show(3, time=3)).text
    with pytest.raises(IndexError, match="there is no step 7: the data end after 1 steps"):
        source.show(3, 7)


def test_events_are_marked_where_they_are_and_banned_ids_named() -> None:
    corpus = sh.ArrayDeserializer({"tokens": words()})
    total = sum(LENGTHS)
    events = [
        sh.events.Ban(ids=["array__5"], at=0),
        sh.events.Skip(at=total // 2, stop=total // 2 + 100),
    ]
    source = sh.MinibatchSource(corpus, events=events)
    time = source.find("array__5")
    page = read(source.show(400, time=time))
    assert len(page.named("g", "event")) == 2
    assert "ban at 0: ids ['array__5']" in page.text
    assert "1 left out by events: array__5" in page.text


def test_a_minibatch_shows_itself_in_a_notebook_and_decoded(
    tokens: sh.ArrayDeserializer,
) -> None:
    minibatch = sh.MinibatchSource(tokens, layout=sh.Packed(48)).next_minibatch(96)
    html = minibatch._repr_html_()
    assert html.startswith('<div class="sweephand"><style>')
    assert "<script" not in html
    text = "".join(map(chr, minibatch["tokens"].as_sequences()[0].tolist()))
    assert text not in html
    assert text in minibatch.show(decode=chr).html
    ended = sh.MinibatchSource(tokens, max_samples=1)
    ended.next_minibatch(100)
    assert "The end of the data" in ended.next_minibatch(100).show().html
