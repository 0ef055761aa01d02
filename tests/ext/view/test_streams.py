"""What a page shows of every kind of stream."""

from __future__ import annotations

import base64
import re
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from tests.ext.view.conftest import LENGTHS, words
from tests.ext.view.pages import Read, read

import sweephand as sh
from sweephand.corpus.streams import StreamInfo
from sweephand.ext.view.tracks import Decoder, decoders_of

NASTY = "<script>alert('&')<br>"


def shown(size: int = 60, **streams: object) -> Read:
    source = sh.MinibatchSource(sh.ArrayDeserializer(streams), randomize=False)  # type: ignore[arg-type]
    return read(source.show(size))


def test_numbers_of_a_sequence_are_columns_of_its_table() -> None:
    page = shown(y=np.arange(60) % 7, weight=np.linspace(0, 1, 60, dtype=np.float32))
    assert re.search(r"id +samples +y +weight", page.text)
    assert "array__8 1 1 0.1356" in page.text


def test_masks_and_other_marks_stand_under_their_tokens() -> None:
    marks = [np.arange(length) % 2 for length in LENGTHS]
    page = shown(4000, tokens=words(), loss_mask=[m.astype(bool) for m in marks], part=marks)
    cells = page.texts("cell")
    first = words()[0].tolist()
    assert [cell[0] for cell in cells[: len(first)]] == list(map(str, first))
    assert [cell[1:3] for cell in cells[:2]] == [["0", "0"], ["1", "1"]]
    dim = page.of_class("off")
    assert len(dim) == sum(cell[1] == "0" for cell in cells)


@pytest.mark.parametrize(
    "shape", [(20, 30), (20, 30, 3), (3, 20, 30), (20, 30, 4), (1, 20, 30)], ids=str
)
def test_pictures_are_thumbnails_with_their_labels(shape: tuple[int, ...]) -> None:
    image = pytest.importorskip("PIL.Image")
    pictures = np.random.default_rng(0).integers(0, 256, (60, *shape)).astype(np.uint8)
    page = shown(image=pictures, label=np.arange(60))
    found = page.named("img")
    assert len(found) == 12
    assert found[3]["alt"] == "array__3, 30 by 20"
    assert "array__3 label 3" in page.text
    stored = image.open(BytesIO(base64.b64decode(found[3]["src"].partition(",")[2])))
    channels_last = pictures[3] if shape[-1] in (3, 4) else pictures[3].reshape(-1, 20, 30).T
    expected = channels_last if shape[-1] in (3, 4) else np.swapaxes(channels_last, 0, 1)
    np.testing.assert_array_equal(
        np.asarray(stored).reshape(20, 30, -1), expected.reshape(20, 30, -1)
    )


def stored(kind: str, number: int) -> bytes:
    image, made = pytest.importorskip("PIL.Image"), BytesIO()
    pixels = np.full((600, 400, 3), number, np.uint8)
    image.fromarray(pixels).save(made, kind)
    return made.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP"])
def test_stored_pictures_are_decoded_small(kind: str) -> None:
    found = shown(image=np.array([stored(kind, n) for n in range(60)], object)).named("img")
    assert len(found) == 12
    assert found[2]["alt"] == "array__2, 400 by 600"
    assert (found[2]["width"], found[2]["height"]) == ("53", "80")


def test_what_is_damaged_or_unknown_is_said_and_the_others_are_shown() -> None:
    found = [
        stored("JPEG", 0)[:200],
        b"\x89PNG\r\n\x1a\n",
        b"\x00\xff" * 40,
        b"",
    ]
    page = shown(x=np.array(found * 12, object))
    assert page.text.count("cannot be decoded: ") == 6
    assert "00 ff 00 ff" in page.text


def test_series_are_waves_and_features_heat_maps() -> None:
    random = np.random.default_rng(0)
    page = shown(
        60,
        sound=[random.normal(size=50).astype(np.float32)] * 60,
        stereo=[random.normal(size=(50, 2))] * 60,
        features=[random.normal(size=(50, 24)).astype(np.float32)] * 60,
        vector=random.normal(size=(60, 300)),
    )
    assert len(page.named("svg", "wave")) == 2  # a sequence fits, of two streams
    assert len(page.named("path", "wave1")) == 1
    assert len(page.named("img", "heat")) == 2
    assert "Time goes from left to right" in page.text


def test_sparse_samples_are_columns_and_values(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    path = tmp_path / "x.ctf"
    with path.open("w") as file:
        file.writelines(f"{n} |S0 {n}:1 27:2.5\n" for n in range(20))
    corpus = sh.CTFDeserializer(
        path, sh.StreamDefs(x=sh.StreamDef("S0", shape=30, is_sparse=True))
    )
    page = read(sh.MinibatchSource(corpus, randomize=False).show(8))
    assert re.search(r"3 +1, +27 +2\.5", page.text)
    assert "2 of 30 columns are stored on average" in page.text


def test_names_ids_and_decoded_text_may_be_anything() -> None:
    source = sh.MinibatchSource(
        sh.Mixture(
            {NASTY: sh.ArrayDeserializer({NASTY: words(), "n\x00": np.arange(60)}),
             "b": sh.ArrayDeserializer({NASTY: words(), "n\x00": np.arange(60)})},
            weights={NASTY: 1, "b": 1},
        ),
        layout=sh.Packed(64),
    )  # fmt: skip
    for decode in (lambda ids: NASTY, lambda ids: "\ud800\x00\u202e", lambda ids: b"\xff"):
        page = read(source.show(200, decode=decode))
        assert NASTY in page.text
        page.text.encode()


# -- text of tokens, by whatever users have --


class Tokenizer:
    """A method of lists, as tokenizers have; calling it encodes."""

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(one) for one in ids).upper()

    def __call__(self, text: str) -> list[int]:
        raise AssertionError("that would encode")


@pytest.mark.parametrize(
    ("decode", "whole"),
    [
        (Tokenizer(), "HI"),
        (lambda ids: "+".join(map(str, ids)), "104+105"),
        (chr, "hi"),
        (bytes, "hi"),
        ({104: "h", 105: "i"}, "hi"),
        (["?"] * 104 + ["h", "i"], "hi"),
    ],
    ids=["tokenizer", "of a list", "of one", "bytes", "dict", "list"],
)
def test_every_form_of_a_decoder(decode: object, whole: str) -> None:
    assert Decoder(decode).whole([104, 105]) == whole
    assert len(Decoder(decode).each([104, 105])) == 2


def test_an_error_of_the_function_is_kept_and_said() -> None:
    decoder = Decoder({1: "a"})
    assert decoder.each([1, 2, 3]) == ["a", "", ""]
    assert decoder.failure == "decode has failed for 2: KeyError: 2"


def info(name: str, dtype: str = "int64", *, is_single: bool = False) -> StreamInfo:
    return StreamInfo(name, np.dtype(dtype), (), is_single=is_single)


def test_without_names_it_is_for_tokens_and_not_for_marks_beside_them() -> None:
    streams = [
        info("tokens"),
        info("loss_mask"),
        info("x", "float32"),
        info("y", is_single=True),
    ]
    assert list(decoders_of(chr, streams)) == ["tokens"]
    assert list(decoders_of({"y": ["no", "yes"]}, streams)) == ["y"]
    assert decoders_of(None, streams) == {}
