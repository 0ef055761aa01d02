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
from tests.ext.formats.cntk_files import htk_bytes

import sweephand as sh
from sweephand.corpus.ledger import Ledger
from sweephand.ext.formats import htk


def features(scp: Any, **options: Any) -> sh.HTKFeatureDeserializer:
    return sh.HTKFeatureDeserializer({"x": sh.io.StreamDef(scp=scp, **options)})


def delivered(corpus: Any, name: str = "x", **options: Any) -> dict[str, NDArray[Any]]:
    options = {"randomize": False, "max_sweeps": 1, **options}
    with sh.MinibatchSource(corpus, **options) as source:
        return {
            sequence: values
            for one in source.minibatches(7)
            for sequence, values in zip(one.ids, one[name].as_sequences(), strict=True)
        }


def refusal(corpus: Any) -> str:
    with pytest.raises((sh.DataError, ValueError)) as caught:
        delivered(corpus)
    return str(caught.value)


def write_labels(folder: Path, text: str, states: str = "sil\nah\nb") -> dict[str, Any]:
    (folder / "states.txt").write_text(states)
    (folder / "a.mlf").write_text(f"#!MLF!#\n{text}")
    return {"label_mapping_file": folder / "states.txt"}


def labels(folder: Path, text: str, **definition: Any) -> sh.HTKMLFDeserializer:
    streams = {"y": sh.io.StreamDef(mlf=folder / "a.mlf", **definition)}
    return sh.HTKMLFDeserializer(streams=streams, **write_labels(folder, text))


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    width=st.integers(1, 3),
    context=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    form=st.tuples(st.sampled_from([6, 9, 0o12000 | 7, 0o5106]), st.sampled_from("<>")),
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
    (folder / "a.chunk").write_bytes(htk_bytes(frames, *form))
    ends = np.cumsum([0, *lengths]).tolist()
    order = data.draw(st.permutations(range(len(lengths))))
    lines = [f"d/{n}.mfc = a.chunk[{ends[n]},{ends[n + 1] - 1}]\r\n" for n in order]
    (folder / "a.scp").write_text("\n".join(lines))
    found = delivered(features(folder / "a.scp", shape=width, context=context))
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
    lines = []
    for number in range(12):
        (tmp_path / f"{number}.mfc").write_bytes(htk_bytes(np.zeros((4, 2))))
        lines.append(f"{number}.mfc\n")
    (tmp_path / "a.scp").write_text("".join(lines))
    corpus = features(tmp_path / "a.scp")
    assert corpus.open(Ledger(0)).chunk_sequences.tolist() == [3, 2, 3, 2, 2]
    streams = {"x": sh.io.StreamDef(scp=tmp_path / "a.scp", context=(1, 0))}
    wide = sh.HTKFeatureDeserializer(streams)  # of no more bytes
    assert wide.open(Ledger(0)).chunk_sequences.tolist() == [2, 1, 1, 1, 2, 1, 1, 1, 2]
    given = sh.HTKFeatureDeserializer(streams, chunk_frames=1000)
    assert given.open(Ledger(0)).chunk_sequences.tolist() == [12]


def test_paths_lie_beside_their_list_unless_a_root_is_given(tmp_path: Path) -> None:
    lists, data = tmp_path / "lists", tmp_path / "data"
    lists.mkdir()
    data.mkdir()
    (lists / "here.mfc").write_bytes(htk_bytes([[1]]))
    (data / "there.mfc").write_bytes(htk_bytes([[2]]))
    (lists / "a.scp").write_text(f"here.mfc\nthere={data}/there.mfc\n")
    assert list(delivered(features(lists / "a.scp"))) == ["here", "there"]
    (lists / "b.scp").write_text("here=.../here.mfc\nthere.mfc\n")
    streams = {"x": sh.io.StreamDef(scp=[lists / "b.scp"])}
    found = delivered(sh.HTKFeatureDeserializer(streams, root=data))
    assert {name: one.tolist() for name, one in found.items()} == {
        "here": [[1]],
        "there": [[2]],
    }
    with pytest.raises(FileNotFoundError, match=r"there\.mfc"):
        features(lists / "b.scp")


def test_features_and_labels_are_joined_and_cut_into_frames(tmp_path: Path) -> None:
    frames = np.arange(8, dtype=np.float32).reshape(-1, 1)
    (tmp_path / "a.chunk").write_bytes(htk_bytes(frames))
    (tmp_path / "a.scp").write_text("s/b.mfc=a.chunk[3,7]\ns/a.mfc=a.chunk[0,2]\n")
    text = '"*/s/a.lab"\n0 100000 ah\n100000 300000 b -9.5 word\n.\n'
    text += '"s/b.rec"\n0 4 sil\n4 5 b\n.\n'
    joined = [features(tmp_path / "a.scp", context=(1, 0)), labels(tmp_path, text)]
    assert delivered(joined, "y")["s/a"].tolist() == [1, 2, 2]
    assert delivered(joined, "y")["s/b"].tolist() == [0, 0, 0, 0, 2]
    found = delivered(joined, layout=sh.Frames())
    assert found["s/b#1"].tolist() == [[3, 4]]
    assert len(found) == 8
    source = sh.MinibatchSource(joined, frame_mode=True, max_sweeps=1, randomization_seed=2)
    rows = np.concatenate(
        [np.c_[one["x"].values[:, 1], one["y"].values] for one in source.minibatches(3)]
    )
    assert sorted(map(tuple, rows.tolist())) == list(
        zip(range(8), [1, 2, 2, 0, 0, 0, 0, 2], strict=True)
    )


def test_utterances_that_one_of_two_streams_lacks_are_left_out(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 10)):
        (tmp_path / f"{name}.mfc").write_bytes(htk_bytes([[first + n] for n in range(6)]))
    (tmp_path / "a.scp").write_text("u1=a.mfc[0,1]\nu2=a.mfc[2,3]\nu3=a.mfc[4,5]\n")
    (tmp_path / "b.scp").write_text("u3=b.mfc[0,1]\nu1=b.mfc[2,3]\n")
    streams = {
        "x": sh.io.StreamDef(scp=tmp_path / "a.scp"),
        "z": sh.io.StreamDef(scp=tmp_path / "b.scp"),
    }
    both = sh.HTKFeatureDeserializer(streams)
    assert "missing='drop' leaves them out" in refusal(both)
    (tmp_path / "c.txt").write_text("u1 |n 1\nu3 |n 3\n")
    third = sh.ArrayDeserializer({"n": np.array([3, 1])}, ids=["u3", "u1"])
    options: Any = {"missing": "drop", "max_sweeps": 1, "randomize": False}
    with sh.MinibatchSource([both, third], **options) as source:
        minibatch = source.next_minibatch(9)
        assert source.stats()["dropped_sequences"] == 1
    assert minibatch.ids == ["u1", "u3"]
    assert minibatch["x"].values.ravel().tolist() == [0, 1, 4, 5]
    assert minibatch["z"].values.ravel().tolist() == [12, 13, 10, 11]
    assert minibatch["n"].values.tolist() == [1, 3]


def test_labels_are_sparse_as_in_cntk_where_a_shape_is_given(tmp_path: Path) -> None:
    text = '"*/a.lab"\n0 200000 ah\n200000 200000 sil\n200000 500000 b\n.\n'
    corpus = labels(tmp_path, text, shape=4)
    (dense,) = (one.toarray().tolist() for one in delivered(corpus, "y").values())
    assert dense == [[0, 1, 0, 0]] * 2 + [[0, 0, 1, 0]] * 3
    mapping = write_labels(tmp_path, text)
    streams = {"y": sh.io.StreamDef(mlf=tmp_path / "a.mlf", is_sparse=True)}
    corpus = sh.HTKMLFDeserializer(streams=streams, phone_boundaries=True, **mapping)
    (marked,) = (one.toarray().tolist() for one in delivered(corpus, "y").values())
    assert marked == [[0, 2, 0], [0, 1, 0], [0, 0, 2], [0, 0, 1], [0, 0, 1]]
    again = pickle.loads(pickle.dumps(corpus))
    assert list(delivered(again, "y")) == ["a"]


def test_one_frame_of_an_utterance_is_spread_over_it(tmp_path: Path) -> None:
    (tmp_path / "a.mfc").write_bytes(htk_bytes(np.ones((3, 2))))
    (tmp_path / "a.ivector").write_bytes(htk_bytes([[5, 6, 7]]))
    (tmp_path / "a.scp").write_text("a.mfc")
    (tmp_path / "i.scp").write_text("a.ivector")
    streams = {
        "x": sh.io.StreamDef(scp=tmp_path / "a.scp"),
        "speaker": sh.io.StreamDef(scp=tmp_path / "i.scp", broadcast=True),
    }
    found = delivered(sh.HTKFeatureDeserializer(streams), "speaker")
    assert found["a"].tolist() == [[5, 6, 7]] * 3


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (0, "a waveform"),
        (5, "IREFC"),
        (10, "DISCRETE"),
        (12, "a kind that HTK does not define"),
        (6 | 0o40000, "_V"),
    ],
)
def test_kinds_that_are_no_floats_are_refused(tmp_path: Path, kind: int, told: str) -> None:
    (tmp_path / "a.mfc").write_bytes(htk_bytes([[1]], kind))
    assert told in refusal(features(tmp_path / "a.mfc"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("a=a.mfc[3,2]", "names no frames"),
        ("a=a.mfc[0,x]", "names no frames"),
        ("=a.mfc", "names no frames"),
        ("a=", "names no frames"),
        ("a=a.mfc[1,2]", r"\[1,2\] of the list are not among the 2 here"),
        ("a.mfc\na=a.mfc", "'a' is there more than once"),
        ("", "the corpus is empty"),
    ],
)
def test_a_list_that_is_wrong_is_an_error(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "a.mfc").write_bytes(htk_bytes([[1], [2]]))
    (tmp_path / "a.scp").write_text(line)
    with pytest.raises((sh.DataError, ValueError), match=told):
        delivered(features(tmp_path / "a.scp"))


@pytest.mark.parametrize("path", ["x" * 300, "a.mfc/b", "at-least-twelve\0.mfc"])
def test_a_path_in_a_list_that_no_file_can_have_is_an_error_of_the_list(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "a.mfc").write_bytes(htk_bytes([[1]]))
    (tmp_path / "a.scp").write_text(path)
    with pytest.raises(sh.DataError) as caught:
        features(tmp_path / "a.scp")
    assert caught.value.file == str(tmp_path / "a.scp")


def test_files_that_do_not_agree_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.mfc").write_bytes(htk_bytes([[1]]))
    (tmp_path / "b.mfc").write_bytes(htk_bytes([[1, 2]]))
    (tmp_path / "c.mfc").write_bytes(htk_bytes([[1]], 6))
    both = [tmp_path / "a.mfc", tmp_path / "b.mfc"]
    assert "all files of a corpus must agree" in refusal(features(both))
    assert "all files of a stream must agree" in refusal(
        features([both[0], tmp_path / "c.mfc"])
    )
    assert "declare shape=1" in refusal(features(both[0], shape=11, context=(5, 5)))


def test_damage_within_the_budget_leaves_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.mfc").write_bytes(htk_bytes([[1], [2]]))
    (tmp_path / "b.mfc").write_bytes(htk_bytes([[3]])[:-1])
    (tmp_path / "a.scp").write_text("a=a.mfc[1,1]\nb.mfc\nc=a.mfc[1,5]\nd=a.mfc\n")
    found = delivered(features(tmp_path / "a.scp"), max_errors=2)
    assert {name: one.tolist() for name, one in found.items()} == {
        "a": [[2]],
        "d": [[1], [2]],
    }
    assert "16 with it; the file has 15" in refusal(features(tmp_path / "b.mfc"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"a.lab"\n0 1 zz\n.\n', "the state .zz. is not in the label mapping file"),
        ('"a.lab"\n0 x ah\n.\n', "a line is BEGIN END STATE"),
        ('"a.lab"\n3 1 ah\n.\n', "do not ascend"),
        ('"a.lab"\n0 1 ah\n2 3 ah\n.\n', "do not follow one another"),
        ('"a.lab"\n0 1 ah\n', "the file ends within the utterance"),
        ('"a.lab"\n.\n', "has no line"),
        ('"a.lab"\n0 999999999 ah\n1 1 ah\n.\n', "do not follow one another"),
        ('"a.lab"\n0 99999999999999 ah\n.\n', "1000000000 frames"),
        ("0 1 ah\n.\n", "the name of an utterance was expected"),
        ('"a.lab"\n0 1 ah\n.\n"*/a.rec"\n', "is there twice"),
    ],
)
def test_labels_that_are_wrong_are_an_error(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(sh.DataError, match=told) as caught:
        delivered(labels(tmp_path, text), "y")
    assert caught.value.line is not None


def test_a_damaged_utterance_within_the_budget_leaves_the_rest(tmp_path: Path) -> None:
    text = '"a.lab"\n0 1 zz\n0 2 ah\n.\n"b.lab"\n0 2 ah\n.\n'
    found = delivered(labels(tmp_path, text), "y", max_errors=1)
    assert {name: one.tolist() for name, one in found.items()} == {"b": [1, 1]}


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mfc").write_bytes(htk_bytes([[1]]))
    at = tmp_path / "a.mfc"
    with pytest.raises(ValueError, match="needs scp="):
        sh.HTKFeatureDeserializer({"x": sh.StreamDef()})
    with pytest.raises(ValueError, match="leave field= out"):
        features(at, field="f")
    with pytest.raises(TypeError, match=r"as \(5, 5\)"):
        features(at, context=5)
    with pytest.raises(ValueError, match="scp= and context= are for HTKFeatureDeserializer"):
        sh.CTFDeserializer(at, {"x": sh.io.StreamDef(scp=at)})
    with pytest.raises(TypeError, match="unexpected keyword argument 'scp'"):
        sh.StreamDef(scp=at)
    two = sh.StreamDefs(x=sh.io.StreamDef(mlf=at), y=sh.io.StreamDef(mlf=at))
    with pytest.raises(ValueError, match="takes one stream"):
        sh.HTKMLFDeserializer(None, two)
    with pytest.raises(ValueError, match="need a shape"):
        sh.HTKMLFDeserializer(None, {"y": sh.io.StreamDef(mlf=at, is_sparse=True)})
    with pytest.raises(ValueError, match="phone_boundaries=True marks sparse labels"):
        sh.HTKMLFDeserializer(None, {"y": sh.io.StreamDef(mlf=at)}, phone_boundaries=True)
    with pytest.raises(ValueError, match="more than the 2 classes"):
        labels(tmp_path, '"a.lab"\n0 1 ah\n.\n', shape=2)


def test_features_and_labels_are_told_by_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.any").write_bytes(htk_bytes([[1], [2]]))
    (tmp_path / "a.scp").write_text("a=a.any[1,1]\n")
    (tmp_path / "a.lab").write_text('#!MLF!#\n"a"\n0 2 s 7\n.\n')
    assert delivered(sh.open(tmp_path / "a.any"), "features")["a"].tolist() == [[1], [2]]
    assert delivered(sh.open(tmp_path / "a.scp"), "features")["a"].tolist() == [[2]]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.any").write_bytes(htk_bytes([[3]]))
    assert list(delivered(sh.open(tmp_path / "sub"), "features")) == ["b"]
    (tmp_path / "sub" / "b.scp").write_text("once=b.any[0,0]\n")
    assert list(delivered(sh.open(tmp_path / "sub"), "features")) == ["once"]
    assert delivered(sh.open(tmp_path / "a.lab"), "labels")["a"].tolist() == [7, 7]
