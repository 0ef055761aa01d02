"""A stranger checks receipts with hashlib, NumPy and the model of the order alone."""

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies
from tests.ext.follow import model_receipts
from tests.model import ModelCorpus, ModelSettings
from tests.sources import as_served, request_of, serving

import sweephand as sh

CHUNKS = ((3, 1, 4), (1, 5, 9, 2), (6, 5), (3, 5, 8))


def corpus_of(chunks: tuple[tuple[int, ...], ...]) -> tuple[sh.ArrayDeserializer, list[Any]]:
    """Make a corpus whose chunks have 3 sequences each, and its values by sequence."""
    sizes = [size for chunk in chunks for size in chunk]
    values = [np.arange(size, dtype=np.int32) + 100 * i for i, size in enumerate(sizes)]
    return sh.ArrayDeserializer({"x": values}, chunk_size=3), values


MODEL = ModelCorpus.of([(3, 1, 4), (1, 5, 9), (2, 6, 5), (3, 5, 8)])


def write(path: Path, source: sh.MinibatchSource, sizes: list[int], **options: Any) -> bytes:
    with sh.train.Receipts(path, **options) as receipts:
        for size in sizes:
            receipts.record(source.next_minibatch(size))
    return (path / "0.receipts").read_bytes()


@given(timeline=strategies.timelines(), data=st.data())
def test_the_model_derives_every_receipt(
    timeline: tuple[ModelCorpus, ModelSettings], data: st.DataObject, tmp_path_factory: Any
) -> None:
    corpus, settings = as_served("arrays", *timeline)
    sizes = data.draw(st.lists(strategies.requests(corpus), min_size=1, max_size=6))
    path = tmp_path_factory.mktemp("receipts")
    with serving("arrays", corpus, settings, num_threads=0) as source:
        file = write(path, source, [request_of(size) for size in sizes])
        assert sh.train.Receipts(path).audit(source).ok
    plan = model_receipts.in_sequences(corpus, settings)
    assert len(model_receipts.audit(file, plan)) == len(sizes)


def test_the_header_tells_all_that_the_model_needs(tmp_path: Path) -> None:
    arrays, values = corpus_of(CHUNKS)
    source = sh.MinibatchSource(
        arrays, randomization_seed=9, randomization_window_in_chunks=4, num_lanes=2
    )
    file = write(tmp_path, source, [7, 7, 30, 1], content=True)
    header = model_receipts.header_of(file)
    settings = model_receipts.settings_of(header)
    assert settings == ModelSettings(seed=9, num_lanes=2, window_chunks=4)
    names = [f"array__{i}" for i in range(len(values))]
    wanted = model_receipts.fingerprint_of_shards({"array": len(values)})
    assert header["order"]["ids"] == wanted
    planned = model_receipts.audit(file, model_receipts.in_sequences(MODEL, settings))
    for receipt, minibatch in zip(model_receipts.receipts_of(file), planned, strict=True):
        total = sum(
            model_receipts.content_of(names[one.sequence], {"x": values[one.sequence]})
            for one in minibatch
        )
        assert receipt.content == total % 2**64


def test_rows_are_those_of_the_model(tmp_path: Path) -> None:
    arrays, values = corpus_of(CHUNKS)
    source = sh.MinibatchSource(arrays, layout=sh.Packed(7, split_long="split"))
    file = write(tmp_path, source, [21, 14, 40, 7], content=True)
    plan = model_receipts.in_rows(MODEL, ModelSettings(), 7)
    planned = model_receipts.audit(file, plan, has_rows=True)
    for receipt, minibatch in zip(model_receipts.receipts_of(file), planned, strict=True):
        total = sum(
            model_receipts.content_of(
                f"array__{one.sequence}",
                {"x": values[one.sequence][one.first : one.first + one.size]},
                one.first,
            )
            for one in minibatch
        )
        assert receipt.content == total % 2**64


def test_content_of_every_length_and_kind_is_that_of_hashlib(tmp_path: Path) -> None:
    count = 300  # so that blocks of 128 bytes end everywhere
    rng = np.random.default_rng(0)
    streams = {
        "bytes": [rng.integers(0, 255, n + 1, np.uint8) for n in range(count)],
        "pairs": [rng.normal(size=(n % 7, 2)).astype(np.float32) for n in range(count)],
        "one": rng.integers(0, 9, (count, 3, 2)),
        "flag": np.arange(count) % 2 == 0,
        "half": [np.float16(np.arange(n % 5)) for n in range(count)],
    }
    source = sh.MinibatchSource(sh.ArrayDeserializer(streams))
    file = write(tmp_path / "plain", source, [1, 700, 3000], content=True)
    planned = model_receipts.audit(
        file,
        model_receipts.in_sequences(
            ModelCorpus.of([[n + 1 for n in range(count)]]), ModelSettings()
        ),
    )
    for receipt, minibatch in zip(model_receipts.receipts_of(file), planned, strict=True):
        total = 0
        for one in minibatch:
            held = {name: np.asarray(values[one.sequence]) for name, values in streams.items()}
            held["one"], held["flag"] = held["one"][None], held["flag"][None]
            total += model_receipts.content_of(f"array__{one.sequence}", held)
        assert receipt.content == total % 2**64


def test_ids_are_bound_to_numbers(tmp_path: Path) -> None:
    def told(corpus: sh.Deserializer, **options: Any) -> str:
        source = sh.MinibatchSource(corpus, **options)
        told: str = source.timeline.order_description["ids"]
        return told

    for name, count in (("a", 3), ("b", 2)):
        (tmp_path / f"{name}.jsonl").write_text('{"x": [1, 2]}\n' * count)
    shards = model_receipts.fingerprint_of_shards({"a.jsonl": 3, "b.jsonl": 2})
    files = sh.open(tmp_path / "*.jsonl")
    assert told(files) == shards
    frames = model_receipts.fingerprint_of_frames(shards, [2] * 5)
    assert told(files, layout=sh.Frames()) == frames
    mixed = sh.Mixture({"a": files, "b": files}, weights={"a": 1, "b": 1})
    both = {"a": shards, "b": shards}
    assert told(mixed) == model_receipts.fingerprint_of_corpora(both)
    ids = ["one", "zwei", "dreißig", "-"]
    given = sh.ArrayDeserializer({"x": np.arange(4)}, ids=ids)
    assert told(given) == model_receipts.fingerprint_of_ids(ids)
    assert told(given.filter(is_even)) == model_receipts.fingerprint_of_ids(ids[::2])


def is_even(values: dict[str, Any]) -> bool:
    return int(values["x"][0]) % 2 == 0
