"""What is served of a value is a function of it alone, whatever is beside and around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sweephand as sh

BIG = 2**53 + 1


class Chunks(sh.UserDeserializer):
    """One chunk of whatever is given."""

    def __init__(self, data: object, definition: sh.StreamDef) -> None:
        self.data = data
        self.definition = definition

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=self.definition)

    def num_chunks(self) -> int:
        return 1

    def get_chunk(self, chunk_id: int) -> dict[str, object]:
        return {"x": self.data}


def source(corpus: sh.Deserializer, **options: Any) -> sh.MinibatchSource:
    return sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, **options)


def array(data: object, definition: sh.StreamDef) -> sh.MinibatchSource:
    return source(sh.ArrayDeserializer({"x": data}, sh.StreamDefs(x=definition)))


def user(data: object, definition: sh.StreamDef) -> sh.MinibatchSource:
    return source(Chunks(data, definition))


def from_data(data: object, definition: sh.StreamDef) -> sh.MinibatchSource:
    return sh.MinibatchSourceFromData({"x": data})


def item(data: object, definition: sh.StreamDef) -> sh.MinibatchSource:
    lengths = None if definition.shape == () else [2]
    return source(sh.MapDeserializer([{"x": data}], sh.StreamDefs(x=definition), lengths))


MAKERS = [array, user, from_data, item]


def items(*values: object, **definition: Any) -> sh.MapDeserializer:
    """A map-style dataset with one sample in every item."""
    streams = sh.StreamDefs(x=sh.StreamDef(**({"shape": ()} | definition)))
    return sh.MapDeserializer([{"x": value} for value in values], streams, name="items")


def torch_of(value: object, dtype: str) -> Any:
    torch = pytest.importorskip("torch")
    return torch.tensor(value, dtype=getattr(torch, dtype))


# Items beside each other ----------------------------------------------------------------------

BESIDE: list[tuple[str, Callable[[], tuple[Any, Any]], Any]] = [
    ("a float beside an integer", lambda: (0.5, 1), (0.5, 1.0)),
    ("an integer that floats cannot hold", lambda: (0.5, BIG), "9007199254740993"),
    ("an integer beside a float", lambda: (BIG, 0.5), "0.5"),
    ("a truth beside an integer", lambda: (1, True), "bool"),
    ("wide beside narrow", lambda: (np.int32(1), np.int64(2**40)), "1099511627776"),
    ("narrow beside wide", lambda: (np.int64(2**40), np.int32(1)), (2**40, 1)),
    ("a sign beside none", lambda: (np.uint64(2**63), np.int64(-1)), "-1"),
    ("none beside a sign", lambda: (np.int64(-1), np.uint64(2**63)), "9223372036854775808"),
    (
        "floats of two widths",
        lambda: (np.float32(0.5), np.float16(0.1)),
        (0.5, np.float16(0.1)),
    ),
    ("a wider float", lambda: (np.float16(0.5), np.float32(0.1)), "float32"),
    ("text beside bytes", lambda: ("é", b"b"), ("é".encode(), b"b")),
    ("a number beside text", lambda: ("a", 1), "no text"),
    ("a tensor", lambda: (torch_of(1, "int64"), torch_of(2, "int32")), (1, 2)),
    ("a tensor of floats", lambda: (torch_of(BIG, "int64"), torch_of(0.5, "float64")), "0.5"),
]


@pytest.mark.parametrize(
    ("values", "wanted"), [p[1:] for p in BESIDE], ids=[p[0] for p in BESIDE]
)
def test_an_item_is_what_it_is_whatever_else_is_in_the_minibatch(
    values: Callable[[], tuple[Any, Any]], wanted: Any
) -> None:
    first, second = values()
    alone = source(items(first)).next_minibatch(1)["x"].values
    both = source(items(first, second))
    if isinstance(wanted, str):
        with pytest.raises(sh.DataError, match=wanted) as caught:
            both.next_minibatch(2)
        assert (caught.value.stream, caught.value.sequence) == ("x", 1)
        both.current_position = 0
        found = both.next_minibatch(1)["x"].values
    else:
        found = both.next_minibatch(2)["x"].values
        assert tuple(found.tolist()) == wanted
    assert found.dtype == alone.dtype
    assert found[0] == alone[0]


def test_an_item_that_does_not_fit_is_skipped_in_the_budget() -> None:
    pytest.importorskip("scipy")
    from scipy.sparse import csr_matrix

    rows = [csr_matrix([[0, 1.5]]), csr_matrix([[BIG, 0]]), csr_matrix([[0, 2.5]])]
    streams = sh.StreamDefs(x=sh.StreamDef(is_sparse=True))
    dataset = [{"x": row} for row in rows]
    corpus = source(sh.MapDeserializer(dataset, streams, [1, 1, 1]), max_errors=1)
    minibatch = corpus.next_minibatch(3)
    assert [int(one.toarray()[0, 1] * 2) for one in minibatch["x"].as_sequences()] == [3, 5]
    assert "9007199254740993" in corpus.errors[0].reason


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([1, BIG, 0.5], "9007199254740993 beside numbers that make it float64"),
        ([1, True], "mixes booleans and integers"),
        ([[0.5, 1.5], [True, 0.5]], "mixes booleans and floats"),
        ([[1, 2], [3, "a"]], "mixes integers and text"),
        ([-1, 2**63], "no type of 64 bits has all of"),
        ([np.uint64(2**63), np.int64(-1)], "no type of 64 bits has all of"),
    ],
)
@pytest.mark.parametrize("make", [array, user])
def test_a_list_is_not_made_something_else_by_its_items(
    make: Any, data: Any, told: str
) -> None:
    with pytest.raises((sh.DataError, ValueError), match=told):
        make(data, sh.StreamDef())


def test_a_list_of_integers_and_floats_is_floats_where_they_hold_them() -> None:
    assert array([1, 0.5], sh.StreamDef()).next_minibatch(2)["x"].values.tolist() == [1.0, 0.5]


# Masks ----------------------------------------------------------------------------------------


def masked(*shape: int, dtype: str = "float32") -> Any:
    mask = np.zeros(shape, bool)
    mask.reshape(-1)[1] = True
    return np.ma.array(np.ones(shape, dtype), mask=mask)


def masked_tensor() -> Any:
    torch = pytest.importorskip("torch")
    return torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False]))


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "data",
    [
        lambda: masked(2),
        lambda: masked(2, 3),
        lambda: [masked(2), np.ones(2, np.float32)],
        lambda: [1.0, np.ma.masked],
        lambda: (np.arange(2), masked(3, dtype="int64")),
        masked_tensor,
    ],
    ids=["numbers", "rows", "a list", "a constant", "offsets", "a tensor"],
)
def test_what_is_masked_is_refused(make: Any, data: Callable[[], Any]) -> None:
    if make is item and isinstance(data(), tuple):
        pytest.skip("an item has no offsets")
    with pytest.raises((sh.DataError, ValueError), match="masked"):
        make(data(), sh.StreamDef())


@pytest.mark.parametrize("make", MAKERS)
def test_a_masked_array_without_a_masked_element_is_the_array(make: Any) -> None:
    data = np.ma.array([1.0, 2.0])
    assert make(data, sh.StreamDef()).next_minibatch(2)["x"].values.tolist() == [1.0, 2.0]


def test_masks_in_lengths_ids_and_what_writers_get_are_refused() -> None:
    mask = masked(2, dtype="int64")
    data = np.ones(2)
    for make in (
        lambda: source(
            sh.MapDeserializer([{"x": 1}] * 2, sh.StreamDefs(x=sh.StreamDef()), mask)
        ),
        lambda: sh.ArrayDeserializer({"x": data}, ids=mask),
        lambda: sh.tfrecord.encode_example({"x": mask}),
        lambda: sh.sequence_to_cntk_text_format(0, {"x": mask[None]}),
    ):
        with pytest.raises(ValueError, match="is masked"):
            make()


# Byte order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("dtype", [">i2", ">i8", ">f4", ">f8", ">u4"])
def test_numbers_of_the_other_byte_order_are_the_same_numbers(make: Any, dtype: str) -> None:
    for data in (np.array([1, 258], dtype), [np.array([1, 258], dtype)]):
        if make is item and isinstance(data, list):
            continue
        found = make(data, sh.StreamDef()).next_minibatch(2)["x"].values
        assert found.dtype == np.dtype(dtype).newbyteorder("=")
        assert found.tolist() == [1, 258]


@pytest.mark.parametrize("make", [array, user, item])
def test_a_declared_byte_order_is_that_of_the_machine(make: Any) -> None:
    found = make(np.array([1, 258]), sh.StreamDef(dtype=">i4")).next_minibatch(2)["x"].values
    assert found.dtype == np.int32
    assert found.dtype.isnative
    assert found.tolist() == [1, 258]


def test_offsets_and_csr_of_the_other_byte_order_are_read_right() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    offsets = np.array([0, 1, 3], ">i8")
    found = array((np.arange(3), offsets), sh.StreamDef()).next_minibatch(3)["x"]
    assert [one.tolist() for one in found.as_sequences()] == [[0], [1, 2]]
    matrix = sparse.csr_matrix(np.array([[0, 7], [258, 0]], np.int32))
    matrix.data = matrix.data.astype(">i4")
    found = array(matrix, sh.StreamDef(is_sparse=True)).next_minibatch(2)["x"]
    assert [one.toarray().tolist() for one in found.as_sequences()] == [[[0, 7]], [[258, 0]]]


def test_a_column_index_of_64_bits_is_not_cut_to_32() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix(np.eye(2))
    matrix.indices = matrix.indices.astype(np.int64) + 2**32
    with pytest.raises(ValueError, match="column index outside"):
        array(matrix, sh.StreamDef(is_sparse=True))
