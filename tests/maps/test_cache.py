"""What a map made is kept in a file, and read as if it were stored so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.maps import functions
from tests.maps.test_sizes import Counting
from tests.maps.test_values import all_of

import sweephand as sh


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    for name, begin in (("a", 0), ("b", 100)):
        rows = (
            {"x": list(range(n, n + 1 + n % 5)), "text": f"line {n}" * (n % 3 + 1)}
            for n in range(begin, begin + 100)
        )
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def open_lines(lines: Path) -> sh.Deserializer:
    return sh.open([lines / "a.jsonl", lines / "b.jsonl"])


def tokens(sequence: dict[str, Any]) -> dict[str, Any]:
    text = sequence["text"][0]
    return {"tokens": np.frombuffer(text, np.uint8), "raw": [text], "n": len(text)}


def sparse(sequence: dict[str, Any]) -> dict[str, Any]:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    dense = np.eye(9, dtype=np.float32)[sequence["x"] % 9]
    return {"hot": scipy_sparse.csr_matrix(dense)}


PROCESSES: Any = {"map_executor": "processes", "num_map_workers": 2}
MAPS: dict[str, tuple[Callable[..., Any], str]] = {
    "tokens": (tokens, "measured"),
    "twice": (functions.twice, "measured"),
    "halves": (functions.halves, "measured"),
    "negate": (functions.negate, "same"),
    "sparse": (sparse, "same"),
}


@pytest.mark.parametrize("name", MAPS)
def test_what_is_kept_is_what_the_map_makes(lines: Path, name: str) -> None:
    function, size = MAPS[name]
    plain = open_lines(lines).map(function, size=size)  # type: ignore[arg-type]
    kept = open_lines(lines).map(function, size=size, cache=True)  # type: ignore[arg-type]

    def of(corpus: sh.Deserializer, size: int, **options: Any) -> Any:
        with sh.MinibatchSource(
            corpus, max_sweeps=2, randomization_seed=3, **options
        ) as source:
            found = []
            for minibatch in source.minibatches(size):
                parts = [minibatch[one] for one in minibatch]
                found += [
                    (sequence_id, *(_plain(part.as_sequences()[i]) for part in parts))
                    for i, sequence_id in enumerate(minibatch.ids)
                ]
            return found, source.get_checkpoint_state()

    expected, state = of(plain, 50)
    for size_of in (50, 333):  # made, and read
        found, own = of(kept, size_of, **PROCESSES)
        assert found == expected
    assert {**own, "position": 0} == {**state, "position": 0}


def _plain(values: Any) -> Any:
    return values.toarray().tolist() if hasattr(values, "toarray") else values.tolist()


def test_the_second_start_calls_for_a_few_sequences(lines: Path) -> None:
    counting = Counting()
    kept = open_lines(lines).map(counting, name="twice", size="measured", cache=True)
    first = all_of(kept, sweeps=2)
    assert counting.calls == 1 + 200
    assert all_of(kept, sweeps=2) == first
    compared = 1 + 4
    assert counting.calls == 1 + 200 + compared
    other = open_lines(lines).map(
        counting, name="twice", version=2, size="measured", cache=True
    )
    assert all_of(other, sweeps=2) == first
    assert counting.calls == 2 * (1 + 200) + compared


def test_frames_are_cut_of_what_is_kept(lines: Path) -> None:
    kept = open_lines(lines).map(functions.twice, size="measured", cache=True)
    with sh.MinibatchSource(kept, layout=sh.Frames(), max_sweeps=1) as source:
        samples = [int(x) for one in source.minibatches(64) for x in one["x"].values]
    expected = [x for n in range(200) for x in range(n, n + 1 + n % 5) for _ in range(2)]
    assert sorted(samples) == sorted(expected)
    plain = open_lines(lines).map(functions.twice, size="measured")
    with pytest.raises(ValueError, match="cache=True"):
        sh.MinibatchSource(plain, layout=sh.Frames())


def test_a_damaged_byte_is_an_error_and_never_a_wrong_value(lines: Path) -> None:
    kept = open_lines(lines).map(functions.twice, size="measured", cache=True)
    expected = all_of(kept, sweeps=1)
    (data,) = (lines / ".sweephand").glob("*.data")
    good = data.read_bytes()
    for at in range(72, len(good), max(1, len(good) // 150)):
        data.write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        with pytest.raises(sh.DataError, match="delete it, and it is made again"):
            all_of(kept, sweeps=1)
    data.unlink()
    assert all_of(kept, sweeps=1) == expected


@pytest.mark.parametrize("cache", [False, True])
def test_a_pass_goes_on_where_it_was_stopped(
    lines: Path, monkeypatch: pytest.MonkeyPatch, cache: bool
) -> None:
    monkeypatch.setattr("sweephand.maps.kept_pass._BATCH_BYTES", 1)
    monkeypatch.setattr("sweephand.maps.kept_pass._LEAST_BATCH", 16)
    monkeypatch.setattr("sweephand.corpus.chunks.CHUNK_BYTES", 1)  # a file is a chunk

    class Stopping(Counting):
        def __call__(self, sequence: dict[str, Any]) -> dict[str, Any]:
            if self.calls == 150:
                raise KeyboardInterrupt
            return super().__call__(sequence)

    def mapped(function: Counting) -> sh.Deserializer:
        return open_lines(lines).map(
            function, name="twice", version=1, size="measured", cache=cache
        )

    with pytest.raises(KeyboardInterrupt):
        sh.MinibatchSource(mapped(Stopping()), num_map_workers=0)
    (part,) = (lines / ".sweephand").glob("*.part")
    good = part.read_bytes()
    torn = 200 if cache else 100  # the first file, or a batch
    for left, most in (
        (good + b"half a block", 100),
        (good[:-3], torn),
        (b"x" + good[1:], 200),
    ):
        for kept in (lines / ".sweephand").glob("map.*"):
            kept.unlink()
        part.write_bytes(left)
        counting = Counting()
        sh.MinibatchSource(mapped(counting), num_map_workers=0).close()
        assert 1 + 50 <= counting.calls <= 1 + most
        assert not part.exists()
    plain = open_lines(lines).map(Counting(), name="twice", size="measured")
    assert all_of(mapped(Counting()), sweeps=1) == all_of(plain, sweeps=1)


def test_damaged_sequences_are_not_kept(lines: Path) -> None:
    kept = open_lines(lines).map(functions.fails_at_47, cache=True)
    with pytest.raises(sh.DataError, match="47 is not wanted"):
        sh.MinibatchSource(kept)
    with pytest.warns(sh.SweephandHint, match="is not kept as some"):
        source = sh.MinibatchSource(kept, max_errors=10, max_sweeps=1)
    assert sum(one.num_sequences for one in source.minibatches(100)) < 200
    source.close()


def test_what_cannot_be_kept_is_refused(lines: Path) -> None:
    with pytest.raises(ValueError, match="differs in every sweep"):
        open_lines(lines).map(functions.stamp, random=True, cache=True)
    arrays = sh.ArrayDeserializer({"x": np.arange(4)}).map(functions.negate, cache=True)
    with pytest.raises(ValueError, match="chunk by chunk"):
        sh.MinibatchSource(arrays)
    with pytest.raises(sh.DataError, match="says size='measured'"):
        sh.MinibatchSource(open_lines(lines).map(functions.twice, cache=True))
