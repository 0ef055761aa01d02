"""Joined corpora are corpora: what can be done with one can be done with several."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.tfds.folders import NUMBERED, numbered, write_folder
from tests.model import ModelCorpus
from tests.read import format_corpora as formats
from tests.sources import Chunks

import sweephand as sh

LENGTHS = [3, 1, 4, 1, 5, 2]
STARTS = np.cumsum([0, *LENGTHS])
FRAMES = np.arange(STARTS[-1])

FRAMED: list[formats.Make] = [
    *(formats.megatron, formats.jsonl, formats.jsonl_in_gzip, formats.jsonl_in_zstd),
    *(formats.tfrecords, formats.tfrecords_in_gzip, formats.array_records),
    *(formats.webdataset, formats.webdataset_in_gzip, formats.mds, formats.mds_in_zstd),
    formats.arrow_files,
]
"""Formats in which damage shows, so that it is known when rows are lost."""


def delivered(source: sh.MinibatchSource, size: int = 4) -> list[tuple[str, int, int]]:
    found = []
    with source:
        for batch in source.minibatches(size):
            found += zip(
                batch.ids, batch["x"].values.tolist(), batch["y"].values.tolist(), strict=True
            )
    return found


def test_streams_of_a_joined_chunk_that_differ_in_length_have_no_frames() -> None:
    chunks = Chunks(ModelCorpus.of([LENGTHS[:2], LENGTHS[2:]]), told=True)
    other = sh.ArrayDeserializer({"y": (-FRAMES, STARTS)})
    with (
        sh.MinibatchSource([chunks, other], layout=sh.Frames(), max_sweeps=1) as source,
        pytest.raises(sh.DataError, match="lengths"),
    ):
        source.next_minibatch(4)  # "label" has one sample a sequence


def test_a_sequence_that_is_not_equally_long_everywhere_has_no_frames() -> None:
    x = sh.ArrayDeserializer({"x": (FRAMES, STARTS)})
    starts = STARTS.copy()
    starts[2] += 1  # sequence 1 is longer here, and sequence 2 shorter
    y = sh.ArrayDeserializer({"y": (-FRAMES, starts)})
    with pytest.raises(sh.DataError, match=r"array__1.*equal lengths.*1, 2 samples"):
        sh.MinibatchSource([x, y], layout=sh.Frames())
    source = sh.MinibatchSource([x, y], layout=sh.Frames(), max_errors=2, max_sweeps=1)
    assert [error.sequence for error in source.errors] == ["array__1", "array__2"]
    left = np.r_[FRAMES[:3], FRAMES[8:]].tolist()
    assert sorted(value for _, value, _ in delivered(source)) == left
    with pytest.raises(ValueError, match="nothing is left"):
        sh.MinibatchSource(
            [x, sh.ArrayDeserializer({"y": (np.arange(60), 10 * np.arange(7))})],
            layout=sh.Frames(),
            max_errors=6,
        )


@pytest.mark.parametrize("shuffle", [False, True])
def test_data_with_an_order_of_their_own_keep_it_when_joined(
    tmp_path: Path, shuffle: bool
) -> None:
    folder = write_folder(tmp_path, {"train": numbered(5, 3, 4)}, NUMBERED)
    config = sh.tfds.ReadConfig(
        interleave_cycle_length=2, interleave_block_length=2, shuffle_seed=3
    )

    def dataset() -> sh.tfds.Dataset:
        return sh.tfds.load(folder, "train", shuffle_files=shuffle, read_config=config)

    options: dict[str, Any] = {"randomize": False, "max_sweeps": 3}
    alone = sh.MinibatchSource(dataset(), **options)
    order = [x for batch in alone.minibatches(5) for x in batch["x"].values.tolist()]
    examples = [100 * shard + n for shard, size in enumerate((5, 3, 4)) for n in range(size)]
    labels = sh.ArrayDeserializer({"y": -np.array(examples)})
    with sh.MinibatchSource([dataset(), labels], **options) as source:
        found = [
            (x, y)
            for batch in source.minibatches(5)
            for x, y in zip(batch["x"].values.tolist(), batch["y"].values.tolist(), strict=True)
        ]
    assert found == [(x, -x) for x in order]

    few = sh.ArrayDeserializer({"y": -np.array(examples[:9])})  # the others have no label
    with sh.MinibatchSource([dataset(), few], missing="drop", **options) as source:
        found = delivered(source)
    kept = [x for x in order if x in examples[:9]]
    assert [(x, y) for _, x, y in found] == [(x, -x) for x in kept]
    with sh.MinibatchSource([dataset(), few], missing="drop", **options) as source:
        for sweep in range(3):
            for place, (name, _, _) in enumerate(found[9 * sweep : 9 * sweep + 9]):
                assert source.find(name, sweep) == 9 * sweep + place
        source.current_position = 13
        state = source.get_checkpoint_state()
    with sh.MinibatchSource([dataset(), few], missing="drop", **options) as source:
        source.restore_from_checkpoint(state)
        assert delivered(source) == found[13:]


def test_chunks_that_are_joined_to_an_order_of_the_data_stay_while_they_are_wanted(
    tmp_path: Path,
) -> None:
    folder = write_folder(tmp_path, {"train": numbered(60, 60)}, NUMBERED)
    config = sh.tfds.ReadConfig(interleave_cycle_length=2, interleave_block_length=2)
    chunks = Chunks(ModelCorpus.of([[1] * 10] * 12), told=True)
    streams = sh.StreamDefs(z=sh.StreamDef(field="x"))
    dataset = sh.tfds.load(folder, "train", read_config=config, streams=streams)
    corpora = [dataset, chunks]
    with sh.MinibatchSource(corpora, randomize=False, max_sweeps=1, num_threads=0) as source:
        before = len(chunks.loads)
        assert sum(batch.num_samples for batch in source.minibatches(4)) == 120
    assert len(chunks.loads) - before <= 24


@pytest.mark.filterwarnings("ignore:.*belong to no sequence")
@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("make", FRAMED, ids=lambda make: make.__name__)
def test_rows_that_are_lost_give_no_later_row_the_values_of_another(
    make: formats.Make, is_cut: bool, tmp_path: Path
) -> None:
    corpus = formats.corpus_for(make)
    make(tmp_path, corpus)
    beside = (".idx", ".json")
    first = min(one for one in tmp_path.glob("[!.]*") if one.suffix not in beside)
    content = bytearray(first.read_bytes())
    place = len(content) * 3 // 5
    content[place:] = b"" if is_cut else bytes([content[place] ^ 0x55]) + content[place + 1 :]
    first.write_bytes(content)
    numbers = sh.ArrayDeserializer({"number": np.arange(len(corpus.tokens))})
    options: dict[str, Any] = {"missing": "drop", "max_errors": 1000, "max_sweeps": 1}
    try:
        with sh.MinibatchSource([formats.OPEN[make](tmp_path), numbers], **options) as source:
            minibatch = source.next_minibatch(1000)
    except (sh.DataError, ValueError):
        return
    rows = zip(
        minibatch.ids,
        minibatch["tokens"].as_sequences(),
        minibatch["number"].values,
        strict=True,
    )
    for name, tokens, number in rows:
        if not name.startswith(first.name):
            assert tokens.reshape(-1).tolist() == corpus.tokens[number].tolist()
