"""HTK's features and labels: kinds, lists, context, joins, and what is wrong with them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.read.format_corpora import htk_bytes

import sweephand as sh
from sweephand.corpus.ledger import Ledger
from sweephand.ext.formats import htk


def features(scp: Any, **options: Any) -> sh.HTKFeatureDeserializer:
    return sh.HTKFeatureDeserializer({"x": sh.io.StreamDef(scp=scp, **options)})


def written(folder: Path, lines: str, **frames: Any) -> Path:
    """Write feature files, by their names, and a list; a value is frames, or bytes."""
    for name, one in frames.items():
        content = one if isinstance(one, bytes) else htk_bytes(one)
        (folder / f"{name}.mfc").write_bytes(content)
    path = folder / "a.scp"
    path.write_text(lines)
    return path


def delivered(corpus: Any, name: str = "x", **options: Any) -> dict[str, NDArray[Any]]:
    options = {"randomize": False, "max_sweeps": 1, **options}
    with sh.MinibatchSource(corpus, **options) as source:
        return {
            sequence: values
            for one in source.minibatches(7)
            for sequence, values in zip(one.ids, one[name].as_sequences(), strict=True)
        }


def as_lists(found: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (one.toarray() if hasattr(one, "toarray") else one).tolist()
        for name, one in found.items()
    }


def labels(
    folder: Path, text: str, phone_boundaries: bool = False, **definition: Any
) -> sh.HTKMLFDeserializer:
    (folder / "states.txt").write_text("sil\nah\nb")
    (folder / "a.mlf").write_text(f"#!MLF!#\n{text}")
    streams = {"y": sh.io.StreamDef(mlf=folder / "a.mlf", **definition)}
    return sh.HTKMLFDeserializer(folder / "states.txt", streams, phone_boundaries)


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    width=st.integers(1, 3),
    context=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    form=st.tuples(st.sampled_from([6, 9, 0o11106]), st.sampled_from("<>")),
    data=st.data(),
)
def test_frames_are_those_that_were_written_with_those_beside_them(
    lengths: list[int],
    width: int,
    context: tuple[int, int],
    form: tuple[int, str],
    data: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("htk")
    frames = np.arange(sum(lengths) * width, dtype=np.float32).reshape(-1, width)
    ends = np.cumsum([0, *lengths]).tolist()
    order = data.draw(st.permutations(range(len(lengths))))
    lines = [f"d/{n}.mfc = all.mfc[{ends[n]},{ends[n + 1] - 1}]\r\n" for n in order]
    scp = written(folder, "\n".join(lines), all=htk_bytes(frames, *form))
    found = delivered(features(scp, shape=width, context=context))
    assert list(found) == [f"d/{n}" for n in order]
    before, after = context
    for n in order:
        own = frames[ends[n] : ends[n + 1]]
        beside = np.arange(len(own))[:, None] + np.arange(-before, after + 1)
        wanted = own[beside.clip(0, len(own) - 1)].reshape(len(own), -1)
        assert np.array_equal(found[f"d/{n}"], wanted)


def test_a_chunk_is_fifteen_minutes_of_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(htk, "_CHUNK_FRAMES", 10)
    files = {f"f{number}": np.zeros((4, 2)) for number in range(12)}
    scp = written(tmp_path, "".join(f"{name}.mfc\n" for name in files), **files)
    assert features(scp).open(Ledger(0)).chunk_sequences.tolist() == [3, 2, 3, 2, 2]
    wide = features(scp, context=(1, 0))  # of no more bytes
    assert wide.open(Ledger(0)).chunk_sequences.tolist() == [2, 1, 1, 1, 2, 1, 1, 1, 2]


def test_paths_lie_beside_their_list_unless_a_root_is_given(tmp_path: Path) -> None:
    lists, data = tmp_path / "lists", tmp_path / "data"
    lists.mkdir()
    data.mkdir()
    (data / "there.mfc").write_bytes(htk_bytes([[2]]))
    scp = written(lists, f"here.mfc\nthere={data}/there.mfc\n", here=[[1]])
    assert as_lists(delivered(features(scp))) == {"here": [[1]], "there": [[2]]}
    scp.write_text("here=.../here.mfc\nthere.mfc\n")
    streams = {"x": sh.io.StreamDef(scp=[scp])}
    found = delivered(sh.HTKFeatureDeserializer(streams, root=data))
    assert as_lists(found) == {"here": [[1]], "there": [[2]]}
    with pytest.raises(FileNotFoundError, match=r"there\.mfc"):
        features(scp)


def test_features_and_labels_are_joined_and_cut_into_frames(tmp_path: Path) -> None:
    frames = np.arange(8, dtype=np.float32).reshape(-1, 1)
    scp = written(tmp_path, "s/b.mfc=all.mfc[3,7]\ns/a.mfc=all.mfc[0,2]\n", all=frames)
    text = '"*/s/a.lab"\n0 100000 ah\n100000 300000 b -9.5 word\n.\n'
    text += '"s/b.rec"\n0 4 sil\n4 5 b\n.\n'
    joined = [features(scp, context=(1, 0)), labels(tmp_path, text)]
    assert as_lists(delivered(joined, "y")) == {"s/a": [1, 2, 2], "s/b": [0, 0, 0, 0, 2]}
    source = sh.MinibatchSource(joined, frame_mode=True, max_sweeps=1, randomization_seed=2)
    rows = np.concatenate(
        [np.c_[one["x"].values[:, 1], one["y"].values] for one in source.minibatches(3)]
    )
    assert sorted(map(tuple, rows.tolist())) == list(
        zip(range(8), [1, 2, 2, 0, 0, 0, 0, 2], strict=True)
    )


def test_several_streams_are_joined_by_key_and_one_may_be_of_a_frame_for_all(
    tmp_path: Path,
) -> None:
    scp = written(tmp_path, "u1=a.mfc[0,1]\nu2=a.mfc[2,3]\n", a=np.arange(4)[:, None])
    (tmp_path / "i.mfc").write_bytes(htk_bytes([[5, 6], [7, 8]]))
    (tmp_path / "i.scp").write_text("u2=i.mfc[0,0]\nu1=i.mfc[1,1]\n")
    streams = {
        "x": sh.io.StreamDef(scp=scp),
        "speaker": sh.io.StreamDef(scp=tmp_path / "i.scp", broadcast=True),
    }
    both = sh.HTKFeatureDeserializer(streams)
    assert as_lists(delivered(both, "speaker")) == {"u1": [[7, 8]] * 2, "u2": [[5, 6]] * 2}
    (tmp_path / "i.scp").write_text("u2=i.mfc[0,0]\n")
    both = sh.HTKFeatureDeserializer(streams)
    with pytest.raises(ValueError, match="missing='drop' leaves them out"):
        delivered(both)
    assert list(delivered(both, missing="drop")) == ["u2"]


def test_labels_are_sparse_as_in_cntk_where_a_shape_is_given(tmp_path: Path) -> None:
    text = '"*/a.lab"\n0 200000 ah\n200000 200000 sil\n200000 500000 b\n.\n'
    dense = as_lists(delivered(labels(tmp_path, text, shape=4), "y"))
    assert dense == {"a": [[0, 1, 0, 0]] * 2 + [[0, 0, 1, 0]] * 3}
    marked = pickle.loads(pickle.dumps(labels(tmp_path, text, True, is_sparse=True)))
    found = [[0, 2, 0], [0, 1, 0], [0, 0, 2], [0, 0, 1], [0, 0, 1]]
    assert as_lists(delivered(marked, "y")) == {"a": found}


@pytest.mark.parametrize("kind", [0, 5, 10, 12, 0o2006, 0o40006])
def test_kinds_that_are_no_floats_are_refused(tmp_path: Path, kind: int) -> None:
    scp = written(tmp_path, "a.mfc", a=htk_bytes([[1]], kind))
    with pytest.raises(sh.DataError, match="are not float32") as caught:
        delivered(features(scp))
    assert (caught.value.file, caught.value.offset) == (str(tmp_path / "a.mfc"), 10)


@pytest.mark.parametrize(
    "line",
    ["a=a.mfc[3,2]", "a=a.mfc[0,x]", "=a.mfc", "a=", "", "x" * 300, "a.mfc/b", "a\0.mfc"],
)
def test_a_line_that_names_no_frames_is_an_error_of_the_list(tmp_path: Path, line: str) -> None:
    scp = written(tmp_path, line, a=[[1], [2]])
    with pytest.raises(sh.DataError) as caught:
        features(scp)
    assert caught.value.file == str(scp)


def test_a_key_in_a_list_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'a' is there more than once"):
        delivered(features(written(tmp_path, "a.mfc\na=a.mfc", a=[[1]])))


@pytest.mark.parametrize("other", [htk_bytes([[1, 2]]), htk_bytes([[1]], 6)])
def test_files_that_do_not_agree_are_an_error(tmp_path: Path, other: bytes) -> None:
    scp = written(tmp_path, "a.mfc\nb.mfc", a=[[1]], b=other)
    with pytest.raises(sh.DataError, match="must agree") as caught:
        delivered(features(scp))
    assert caught.value.file == str(tmp_path / "b.mfc")
    with pytest.raises(sh.DataError, match="declare shape="):
        delivered(features(scp, shape=11, context=(5, 5)))


def test_damage_within_the_budget_leaves_the_rest(tmp_path: Path) -> None:
    lines = "a=a.mfc[1,1]\nb.mfc\nc=a.mfc[1,5]\nd=a.mfc\n"
    scp = written(tmp_path, lines, a=[[1], [2]], b=htk_bytes([[3]])[:-1])
    found = delivered(features(scp), max_errors=2)
    assert as_lists(found) == {"a": [[2]], "d": [[1], [2]]}
    scp.write_text("b.mfc")
    with pytest.raises(sh.DataError, match="16 with it; the file has 15"):
        delivered(features(scp))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"a.lab"\n0 1 zz\n.\n', 3),
        ('"a.lab"\n0 x ah\n.\n', 3),
        ('"a.lab"\n3 1 ah\n.\n', 3),
        ('"a.lab"\n0 1 ah\n2 3 ah\n.\n', 5),
        ('"a.lab"\n0 1 ah\n', 3),
        ('"a.lab"\n.\n', 3),
        ('"a.lab"\n0 999999999 ah\n1 1 ah\n.\n', 5),
        ('"a.lab"\n0 99999999999999 ah\n.\n', 4),
        ("0 1 ah\n.\n", 2),
        ('"a.lab"\n0 1 ah\n.\n"*/a.rec"\n', 5),
    ],
)
def test_labels_that_are_wrong_are_an_error_with_the_line(
    tmp_path: Path, text: str, line: int
) -> None:
    with pytest.raises(sh.DataError) as caught:
        delivered(labels(tmp_path, text), "y")
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "a.mlf"), line)


def test_a_damaged_utterance_within_the_budget_leaves_the_rest(tmp_path: Path) -> None:
    text = '"a.lab"\n0 1 zz\n0 2 ah\n.\n"b.lab"\n0 2 ah\n.\n'
    assert as_lists(delivered(labels(tmp_path, text), "y", max_errors=1)) == {"b": [1, 1]}


def test_lists_are_known_by_their_names_and_labels_by_their_bytes(tmp_path: Path) -> None:
    scp = written(tmp_path, "a=a.mfc[1,1]\n", a=[[1], [2]])
    (tmp_path / "a.lab").write_text('#!MLF!#\n"a"\n0 2 s 7\n.\n')
    assert as_lists(delivered(sh.open(scp), "features")) == {"a": [[2]]}
    assert as_lists(delivered(sh.open(tmp_path / "a.lab"), "labels")) == {"a": [7, 7]}
