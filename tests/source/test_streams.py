"""Streams: what defines the size, casts, transforms, broadcast, and how they are asked for."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import sweephand as sh

RAGGED = (np.arange(6), np.array([0, 1, 3, 6]))  # lengths 1, 2, 3


def source_of(
    streams: dict[str, object], defs: dict[str, sh.StreamDef] | None = None, **options: Any
) -> sh.MinibatchSource:
    definitions = None if defs is None else sh.StreamDefs(**defs)
    corpus = sh.ArrayDeserializer(streams, definitions)
    return sh.MinibatchSource(corpus, **{"randomize": False, "max_sweeps": 1} | options)


# Size -----------------------------------------------------------------------------------------


def test_the_size_is_that_of_the_longest_stream_unless_one_defines_it() -> None:
    streams = {"x": RAGGED, "y": (np.arange(6), [0, 3, 5, 6]), "z": np.arange(3)}
    for name, sizes in (
        ("x", [1, 2, 3]),
        ("y", [3, 2, 1]),
        ("z", [1, 1, 1]),
        (None, [3, 2, 3]),
    ):
        defs = {stream: sh.StreamDef(defines_mb_size=stream == name) for stream in streams}
        with source_of(streams, defs) as source:
            assert source.num_samples_per_sweep == sum(sizes)
            found = [(mb.num_samples, mb.num_sequences) for mb in source.minibatches(1)]
            assert found == [(size, 1) for size in sizes]


def test_two_streams_cannot_define_the_size() -> None:
    both = sh.StreamDef(defines_mb_size=True)
    with pytest.raises(ValueError, match="only one stream can define the minibatch size"):
        source_of({"x": RAGGED, "y": RAGGED}, {"x": both, "y": both})


# Casts ----------------------------------------------------------------------------------------

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
NUMBERS = [
    *map(np.dtype, ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]),
    *map(np.dtype, ["uint64", "float16", "float32", "float64"]),
    BFLOAT16,
]


def fits(value: int, dtype: np.dtype[Any]) -> bool:
    with np.errstate(all="ignore"):
        (found,) = np.array([value], np.min_scalar_type(value)).astype(dtype).tolist()
    return bool(np.isfinite(found)) and Fraction(found) == value


@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.integers(1, 1100), st.data())
def test_an_element_that_does_not_fit_is_found_among_many(
    stored: np.dtype[Any], dtype: np.dtype[Any], count: int, data: st.DataObject
) -> None:
    values = np.arange(count).astype(np.uint8).astype(stored) % 2
    place = data.draw(st.integers(0, count - 1))
    if stored.kind in "iu":
        values[place] = np.iinfo(stored).max
    with source_of({"x": [values]}, {"x": sh.StreamDef(dtype=dtype)}) as source:
        if not fits(int(values[place]), dtype):
            with pytest.raises(sh.DataError, match=f"element {place} .* does not fit"):
                source.next_minibatch(count)
        else:
            found = source.next_minibatch(count)["x"].values
            np.testing.assert_array_equal(found, values.astype(dtype), strict=True)


@pytest.mark.parametrize(
    ("layout", "rows"),
    [(sh.Ragged(), True), (sh.Ragged(), False), (sh.Padded(), False), (sh.Packed(4), False)],
)
def test_a_sequence_with_an_element_that_does_not_fit_is_skipped_as_others_are(
    layout: sh.Layout, rows: bool
) -> None:
    stored = np.arange(12).reshape(6, 2)
    stored[2, 1] = 300
    data = {"x": stored if rows else list(stored), "y": np.arange(6)}
    defs = {"x": sh.StreamDef(dtype=np.uint8), "y": sh.StreamDef(dtype=np.float32)}
    with source_of(data, defs, layout=layout, max_errors=1, max_sweeps=1) as source:
        minibatch = source.next_minibatch(100)
        kept = [0, 1, 3, 4, 5]
        found = minibatch["x"].values.reshape(-1, 2)
        np.testing.assert_array_equal(found, stored[kept].astype(np.uint8), strict=True)
        y = minibatch["y"].values
        np.testing.assert_array_equal(y, np.array(kept, np.float32), strict=True)
        assert [error.sequence for error in source.errors] == ["array__2"]


@pytest.mark.parametrize("values", [np.array([1j]), np.array(["2020"], "M8[Y]")])
def test_what_is_no_plain_number_is_delivered_as_it_is_and_never_cast(
    values: NDArray[Any],
) -> None:
    with source_of({"x": values}) as source:
        found = source.next_minibatch(1)["x"].values
        assert found.dtype == values.dtype
        assert np.array_equal(found, values)
    with pytest.raises(ValueError, match="stream 'x': there is no cast from"):
        source_of({"x": values}, {"x": sh.StreamDef(dtype=np.float32)})
    with pytest.raises(ValueError, match="stream 'x': there is no cast from"):
        source_of({"x": np.arange(3)}, {"x": sh.StreamDef(dtype=values.dtype)})


# Definitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (sh.StreamDef(shape=3), r"stream 'x' has samples of shape \(2,\), not \(3,\)"),
        (sh.StreamDef(shape=()), r"stream 'x' has samples of shape \(2,\), not \(\)"),
        (sh.StreamDef(is_sparse=True), "stream 'x' is declared sparse, but its data are dense"),
        (sh.StreamDef(field="y"), "no data for stream 'y', there are: x"),
    ],
)
def test_a_definition_that_the_data_contradict_is_refused(
    definition: sh.StreamDef, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        source_of({"x": np.zeros((3, 2))}, {"x": definition})


def test_a_broadcast_stream_has_one_sample_per_sequence() -> None:
    defs = {"x": sh.StreamDef(), "y": sh.StreamDef(broadcast=True)}
    with (
        source_of({"x": RAGGED, "y": RAGGED}, defs) as source,
        pytest.raises(sh.DataError, match="one sample per sequence, here are 2") as caught,
    ):
        source.next_minibatch(6)
    assert (caught.value.stream, caught.value.sequence) == ("y", "array__1")


@pytest.mark.parametrize(
    ("definitions", "wanted"),
    [
        ({"x": sh.StreamDef(field="a")}, {"x": [0, 1, 2], "b": [1, 2, 3]}),
        ({"b": sh.StreamDef(defines_mb_size=True)}, {"b": [1, 2, 3], "a": [0, 1, 2]}),
        (["b"], {"b": [1, 2, 3], "a": [0, 1, 2]}),
    ],
)
def test_definitions_of_some_streams_keep_the_rest(
    definitions: Any, wanted: dict[str, list[int]], tmp_path: Path
) -> None:
    data = {"a": np.arange(3), "b": np.arange(1, 4)}
    for name, values in data.items():
        np.save(tmp_path / f"{name}.npy", values)
    np.savez(tmp_path / "c.npz", **data)  # type: ignore[arg-type]
    paths = {name: tmp_path / f"{name}.npy" for name in data}
    chosen = [sh.open(tmp_path / "c.npz", definitions), sh.open([*paths.values()], definitions)]
    for corpus in (
        sh.ArrayDeserializer(data, definitions),
        sh.NpyDeserializer(paths, definitions),
        *chosen,
    ):
        with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
            minibatch = source.next_minibatch(3)
            found = {name: minibatch[name].values.tolist() for name in minibatch}
            if corpus in chosen:  # what is opened has the streams that are asked for
                assert found == {name: wanted[name] for name in definitions}
            else:
                assert list(found.items()) == list(wanted.items())


# Transforms -----------------------------------------------------------------------------------


@given(
    st.sampled_from([None, sh.Padded(pad_value=7), sh.Padded(side="left")]), st.integers(1, 6)
)
def test_transforms_see_the_samples_of_a_minibatch_one_after_the_other(
    layout: sh.Layout | None, size: int
) -> None:
    def widen(x: NDArray[Any]) -> NDArray[Any]:
        return np.stack([x, x * 0.5], axis=1)

    def shift(x: NDArray[Any]) -> NDArray[Any]:
        return x + 1

    defs = {"x": sh.StreamDef(transforms=(widen, shift))}
    with (
        source_of({"x": RAGGED}, defs, layout=layout) as source,
        source_of({"x": RAGGED}) as plain,
    ):
        while minibatch := source.next_minibatch(size):
            data = minibatch["x"]
            wanted = shift(widen(plain.next_minibatch(size)["x"].values))
            assert np.array_equal(data.values, wanted)
            dense = data.asarray()
            assert np.array_equal(dense[data.mask != 0], wanted)
            assert (dense[data.mask == 0] == (layout or sh.Ragged()).pad_value_of("x")).all()


def test_a_transform_that_changes_the_number_of_samples_is_refused() -> None:
    defs = {"x": sh.StreamDef(transforms=(lambda x: x[1:],))}
    with source_of({"x": RAGGED}, defs) as source:
        data = source.next_minibatch(6)["x"]
        with pytest.raises(
            ValueError, match="stream 'x' must keep the number of samples, it made 5 of 6"
        ):
            _ = data.values


# Asking ---------------------------------------------------------------------------------------


def test_streams_are_found_by_name_and_as_attributes() -> None:
    with source_of({"x": np.zeros((3, 2), np.float32), "y": RAGGED}) as source:
        assert list(source.streams) == ["x", "y"]
        info = source.streams.x
        assert info == source["x"] == source.stream_info("x") == source.streams["x"]
        assert (info.name, info.dtype, info.shape, info.is_sparse) == (
            "x",
            np.float32,
            (2,),
            False,
        )
        with pytest.raises(ValueError, match="no stream 'z', there are: x, y"):
            source.stream_info("z")
        with pytest.raises(KeyError):
            source["z"]
        with pytest.raises(AttributeError, match="no stream 'z', there are: x, y"):
            _ = source.streams.z


@pytest.mark.parametrize("wrong", ["z", "", None, 3, sh.StreamInfo("z", np.dtype("f4"), ())])
def test_an_input_map_with_an_unknown_stream_leaves_the_source_unchanged(wrong: Any) -> None:
    with source_of({"x": RAGGED}) as source:
        source.next_minibatch(1)
        with pytest.raises(ValueError, match=r"no stream .*, there are: x"):
            source.next_minibatch(2, {"a": "x", "b": wrong})
        assert source.current_position == 1
        assert source.next_minibatch(2).ids == ["array__1"]


def test_a_minibatch_is_a_mapping_that_is_falsy_only_at_the_end_of_data() -> None:
    with source_of({"x": RAGGED}) as source:
        minibatch = source.next_minibatch(6, num_data_partitions=7, partition_index=6)
        assert minibatch
        assert minibatch.num_sequences == 0
        assert dict(minibatch) == {"x": minibatch["x"]}
        assert repr(minibatch) == (
            "Minibatch(0 sequences, 0 samples of 6 over all workers, at nominal time 0; "
            "x: int64 (0, 0))"
        )
        end = source.next_minibatch(6)
        assert not end
        assert len(end) == 0
        assert end.ids == []
        assert (end.num_samples, end.global_num_samples, end.end_of_sweep) == (0, 0, False)
        assert end.nominal_time == source.current_position == 6
        assert repr(end) == "Minibatch(end of data)"


def test_arrays_leave_by_the_array_and_dlpack_protocols_without_a_copy() -> None:
    with source_of({"x": RAGGED}) as source:
        data = source.next_minibatch(6)["x"]
        assert np.shares_memory(np.from_dlpack(data), data.values)
        assert np.asarray(data).shape == (3, 3)
        assert np.array(data, dtype=np.float32).dtype == np.float32
        assert not np.shares_memory(np.array(data), data.asarray())
    with source_of({"x": RAGGED}, layout=sh.Padded()) as source:
        data = source.next_minibatch(6)["x"]
        assert np.shares_memory(np.from_dlpack(data), data.asarray())
        assert np.shares_memory(np.asarray(data), data.asarray())
