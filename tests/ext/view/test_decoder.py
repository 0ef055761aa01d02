"""Text of tokens, by whatever users have."""

import numpy as np
import pytest

from sweephand.corpus.streams import StreamInfo
from sweephand.ext.view.tracks import Decoder, decoders_of


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
