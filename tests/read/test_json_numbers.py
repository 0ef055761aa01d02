"""Numbers in JSON are what their text says, or an error with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sweephand as sh
from sweephand.deserializers import jsonl

BIG = 2**53 + 1


def source(path: Path, **definition: Any) -> sh.MinibatchSource:
    streams = sh.StreamDefs(x=sh.StreamDef(**definition))
    corpus = sh.JSONLDeserializer(path, streams)
    return sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)


@pytest.mark.parametrize(
    ("lines", "definition", "told"),
    [
        (['{"x": 1e400}'], {}, "beyond float64"),
        (['{"x": [1.5, -1e999]}'], {}, "beyond float64"),
        (['{"x": true}', '{"x": 1}'], {}, "numbers, and true or false in other rows"),
        (['{"x": 1}', '{"x": true}'], {}, "true or false, and numbers in other rows"),
        (['{"x": [true, 1]}'], {}, "values of several kinds"),
        (['{"x": true}'], {"dtype": "int32"}, "true or false where numbers are wanted"),
        (['{"x": true}'], {"dtype": "float32"}, "true or false where numbers are wanted"),
        (['{"x": 1}'], {"dtype": "bool"}, "numbers where true or false are wanted"),
        (['{"x": 0.5}', f'{{"x": {BIG}}}'], {}, "integer that float64 cannot hold"),
        ([f'{{"x": {BIG}}}', '{"x": 0.5}'], {}, "integer that float64 cannot hold"),
        ([f'{{"x": [{BIG}, 0.5]}}'], {}, "integer that float64 cannot hold"),
        (['{"x": 16777217}'], {"dtype": "float32"}, "integer that float32 cannot hold"),
        (['{"x": [0.5, 2049]}'], {"dtype": "float16"}, "integer that float16 cannot hold"),
        (['{"x": 1, "x": 2}'], {}, "is there twice"),
        (['{"x": 1, "\\u0078": 1}'], {}, "is there twice"),
        (['{"x": 1, "y": {"z": 1, "z": 2}, "x": "a"}'], {}, "is there twice"),
    ],
)
@pytest.mark.parametrize("beside", ["", ', "y": null'], ids=["by the core", "by Python"])
def test_json_that_is_no_exact_number_is_an_error_with_its_line(
    lines: list[str], definition: Any, told: str, beside: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{line[:-1]}{beside}}}\n" for line in lines))
    with pytest.raises(sh.DataError, match=told) as caught:
        source(path, **definition).next_minibatch(9)
    assert (caught.value.stream, caught.value.file) == ("x", str(path))
    assert caught.value.line is not None


def test_keys_that_nobody_asks_for_may_repeat(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for odd in ("", ', "z": [null]'):
        path.write_text(f'{{"x": 1, "y": 1, "y": 2, "w": {{"x": 1, "x": 2}}{odd}}}\n')
        assert source(path).next_minibatch(1)["x"].values.tolist() == [1]


def test_a_line_of_numbers_between_two_floats_is_parsed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    numbers = [float(odd) for odd in range(257, 511, 2)]  # between two that bfloat16 has
    path.write_text(f'{{"x": {numbers}, "y": null}}\n')
    parsed: list[bytes] = []
    plain = jsonl.parse_object

    def parse_object(line: bytes, *how: Any) -> Any:
        parsed.append(line)
        return plain(line, *how)

    monkeypatch.setattr(jsonl, "parse_object", parse_object)
    with source(path, dtype="bfloat16") as served:
        parsed.clear()
        assert len(served.next_minibatch(len(numbers))["x"].values) == len(numbers)
    assert len(parsed) == 2
