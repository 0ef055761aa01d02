"""A cast is exact or an error, by one rule in every format, against exact arithmetic."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests import extent
from tests.ext.tfds.folders import tensor, tree, write_folder
from tests.read.written import npy_bytes, write_mds, write_megatron, write_tar

import sweephand as sh

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
# Digits to base 2, and the exponents of the least and of the largest normal number.
FLOATS = {
    np.dtype("float16"): (11, -14, 15),
    BFLOAT16: (8, -126, 127),
    np.dtype("float32"): (24, -126, 127),
    np.dtype("float64"): (53, -1022, 1023),
}
BOOL = np.dtype(bool)
DTYPES = [BOOL, *INTEGERS, *FLOATS]
PLAIN = [dtype for dtype in DTYPES if dtype != BFLOAT16]  # what NumPy has by itself
SIGNED, SINGLE, DOUBLE = np.dtype("int64"), np.dtype("float32"), np.dtype("float64")

WHOLE = [0, 1, 2, 127, 128, 255, 256, 257, 2049, 65503, 65504, 65505, 65519, 65520]
WHOLE += [2**k + d for k in (24, 31, 32, 53, 63, 64) for d in (-1, 0, 1)]
WHOLE += [2**24 + 2, 2**40 + 2**20, 2**62 + 2**40]
PARTS = [0.5, 1.5, 0.1, 65519.99, 1e39, 1e300, 1e-46, 1e-60, 5e-324]
PARTS += [2.0**-k for k in (149, 24, 25, 1074, 133, 134)]
PARTS += [3.4028234663852886e38, 3.4028235677973366e38, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40]
PARTS += [1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-50, 1 + 2.0**-8]

Number = int | float


def round_to(exact: Fraction, dtype: np.dtype[Any]) -> Fraction | None:
    """The nearest float of a type, of two the even one; None beyond the largest."""
    digits, least, most = FLOATS[dtype]
    if exact == 0:
        return exact
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, least) - digits + 1)
    rounded = round(exact / unit) * unit  # Python rounds halves of fractions to even
    return rounded if abs(rounded) < Fraction(2) ** (most + 1) else None


def holds(value: Number, dtype: np.dtype[Any]) -> bool:
    """Whether there is such a value of a type."""
    if dtype == BOOL:
        return isinstance(value, int) and value in (0, 1)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return isinstance(value, int) and info.min <= value <= info.max
    return not math.isfinite(value) or round_to(Fraction(value), dtype) == Fraction(value)


def values_of(dtype: np.dtype[Any]) -> list[Number]:
    """Zero, and the edges that a type holds."""
    wanted: list[Number] = [sign * value for value in WHOLE for sign in (1, -1)]
    if dtype in FLOATS:
        wanted = [float(value) for value in wanted]
        wanted += [sign * value for value in PARTS for sign in (1, -1)]
        wanted += [-0.0, math.inf, -math.inf, math.nan]
    return [value for n, value in enumerate(wanted) if holds(value, dtype) and n != 1]


def expected(value: Number, dtype: np.dtype[Any]) -> Number | None:
    """The rule: the value as another type, or None where that is an error."""
    if not math.isfinite(value):
        return value if dtype in FLOATS else None
    return from_exact(value, Fraction(value), dtype)


def from_exact(value: Number, exact: Fraction, dtype: np.dtype[Any]) -> Number | None:
    if dtype == BOOL or dtype in INTEGERS:
        whole = int(exact)
        return whole if whole == exact and holds(whole, dtype) else None
    rounded = round_to(exact, dtype)
    if rounded is None or (isinstance(value, int) and rounded != exact):
        return None
    return math.copysign(float(rounded), value) if value else float(value)


def expected_of_json(value: Number, dtype: np.dtype[Any]) -> Number | None:
    """In text a number with a fraction is no integer, and no number is true or false."""
    if dtype == BOOL or (isinstance(value, float) and dtype not in FLOATS):
        return None
    if isinstance(value, int) and not holds(value, SIGNED):
        return None
    return from_exact(value, Fraction(repr(value)), dtype)


def expected_of_ctf(value: Number, dtype: np.dtype[Any]) -> Number | None:
    """All numbers of CNTK's text are decimal fractions; integers are those that are whole."""
    if not math.isfinite(value):
        return expected(value, dtype)
    return from_exact(float(value), Fraction(repr(value)), dtype)


def expected_of_csv(value: Number, dtype: np.dtype[Any]) -> Number | None:
    """Text as in JSON, but 0 and 1 may be flags, and integers of 64 bits need no sign."""
    if not math.isfinite(value):
        return expected(value, dtype)
    if isinstance(value, float) and dtype not in FLOATS:
        return None
    return from_exact(value, Fraction(repr(value)), dtype)


def expected_of_flags(value: Number, dtype: np.dtype[Any]) -> Number | None:
    """In text, true and false are no numbers."""
    return value if dtype == BOOL else None


# Formats: how values of a type are written, and of which types


def to_array(values: list[Number], dtype: np.dtype[Any]) -> Any:
    if dtype in FLOATS:
        return np.array(values, np.float64).astype(dtype)
    return np.array(values, dtype)


def streams(dtype: np.dtype[Any], field: str = "x", **options: Any) -> sh.StreamDefs:
    return sh.StreamDefs(x=sh.StreamDef(field=field, dtype=dtype, **options))


def array(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    return sh.ArrayDeserializer({"x": values}, streams(dtype))


def npy(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    np.save(folder / "x.npy", values)
    return sh.NpyDeserializer({"x": folder / "x.npy"}, streams(dtype))


def map_items(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    return sh.MapDeserializer([{"x": value} for value in values], streams(dtype, shape=()))


def parquet(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    pq.write_table(pa.table({"x": values}), folder / "x.parquet")
    return sh.ParquetDeserializer(folder / "x.parquet", streams(dtype))


def arrow(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    pa = pytest.importorskip("pyarrow")
    return sh.ArrowDeserializer(pa.table({"x": values}), streams(dtype))


def tfrecords(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    sh.tfrecord.write(folder / "x.tfrecord", [{"x": value} for value in values])
    return sh.TFRecordDeserializer(folder / "x.tfrecord", streams(dtype))


def tfds(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    features = tree(x=tensor(values.dtype.name, encoding="bytes"))
    write_folder(folder, {"train": [[{"x": value.tobytes()} for value in values]]}, features)
    return sh.tfds.load(folder, "train", streams=streams(dtype))


def megatron(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    write_megatron(folder / "x", list(values[:, None]), dtype=values.dtype.str[1:])
    return sh.MegatronDeserializer(folder / "x", streams(dtype, "tokens"))


def jsonl(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    lines = [json.dumps({"x": value}) + "\n" for value in values.tolist()]
    (folder / "x.jsonl").write_text("".join(lines))
    return sh.JSONLDeserializer(folder / "x.jsonl", streams(dtype))


def ctf(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    lines = [f"{n} |X {value!r}\n" for n, value in enumerate(values.tolist())]
    (folder / "x.ctf").write_text("".join(lines))
    wanted = streams(dtype, "X", shape=1)
    return sh.CTFDeserializer(folder / "x.ctf", wanted, allow_nonfinite=True)


def csv(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    pytest.importorskip("pyarrow")
    lines = [f"{value!r}\n" for value in values.tolist()]
    (folder / "x.csv").write_text("x\n" + "".join(lines))
    return sh.CSVDeserializer(folder / "x.csv", streams(dtype))


def hdf5(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = values
    return sh.HDF5Deserializer(folder / "x.h5", streams(dtype))


def mds(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    samples = [{"x": value.tobytes()} for value in values]
    write_mds(folder, {"x": (values.dtype.name, values.dtype.itemsize)}, [samples])
    return sh.MDSDeserializer(folder, streams(dtype))


def webdataset(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    members = [(f"{n}.x.npy", npy_bytes(value[None])) for n, value in enumerate(values)]
    write_tar(folder / "x.tar", members)
    return sh.WebDatasetDeserializer(folder / "x.tar", streams(dtype, "x.npy"))


def mapped(folder: Path, values: Any, dtype: np.dtype[Any]) -> sh.Deserializer:
    numbers = sh.ArrayDeserializer({"n": np.arange(len(values))})
    return numbers.map(
        lambda row: {"x": values[int(row["n"][0])][None]}, name="pick", streams=streams(dtype)
    )


@dataclass(frozen=True)
class Format:
    """How values are written, from which types and to which they are cast, and by what rule."""

    make: Callable[[Path, Any, np.dtype[Any]], sh.Deserializer]
    stored: list[np.dtype[Any]]
    wanted: list[np.dtype[Any]]
    rule: Callable[[Number, np.dtype[Any]], Number | None] = expected


SOME = [np.dtype(name) for name in ("bool", "int8", "uint16", "int64", "uint64")] + [*FLOATS]
TEXT_TYPES = [*INTEGERS, SINGLE, DOUBLE]
FORMATS = [
    Format(array, DTYPES, DTYPES),
    Format(npy, PLAIN, SOME),
    Format(map_items, DTYPES, SOME),
    Format(parquet, PLAIN, SOME),
    Format(arrow, PLAIN, SOME),
    Format(tfrecords, [SIGNED, SINGLE], DTYPES),
    Format(tfds, PLAIN, SOME),
    Format(megatron, [np.dtype(name) for name in ("u1", "i1", "i2", "i4", "i8", "u2")], SOME),
    Format(jsonl, [SIGNED, DOUBLE], DTYPES, expected_of_json),
    Format(ctf, [SIGNED, SINGLE, DOUBLE], TEXT_TYPES, expected_of_ctf),
    Format(csv, [SIGNED, np.dtype("uint64"), DOUBLE], DTYPES, expected_of_csv),
    Format(csv, [BOOL], DTYPES, expected_of_flags),
    Format(hdf5, PLAIN, SOME),
    Format(mds, [dtype for dtype in PLAIN if dtype != BOOL], SOME),
    Format(webdataset, PLAIN, SOME),
    Format(mapped, PLAIN, SOME),
]


def delivered(corpus: sh.Deserializer, count: int) -> list[Any]:
    """What every sequence is delivered as, by its number; None where that is an error."""
    found: list[Any] = [None] * count
    options: dict[str, Any] = {"randomize": False, "max_sweeps": 1, "num_threads": 0}
    with sh.MinibatchSource(corpus, max_errors=count, **options) as source:
        for position in range(int(source.num_samples_per_sweep)):
            source.current_position = position
            try:
                minibatch = source.next_minibatch(1)
            except sh.DataError:
                continue
            for sequence_id, value in zip(minibatch.ids, minibatch["x"].values, strict=False):
                found[int(sequence_id.rpartition("__")[2])] = value.reshape(())
    return found


def same(found: Any, wanted: Number | None, dtype: np.dtype[Any]) -> bool:
    if found is None or wanted is None:
        return found is wanted
    if found.dtype != dtype:
        return False
    if math.isnan(wanted):
        return bool(np.isnan(found))
    signs_agree = math.copysign(1, float(found)) == math.copysign(1, wanted)
    return (int(found) if dtype in INTEGERS else float(found)) == wanted and signs_agree


CASES = [
    pytest.param(form, stored, id=f"{form.make.__name__}-{stored.name}")
    for form in FORMATS
    for stored in form.stored
]


@pytest.mark.parametrize(("form", "stored"), extent.sample(CASES, 80))
def test_a_value_is_what_exact_arithmetic_makes_of_it_or_an_error(
    form: Format, stored: np.dtype[Any], tmp_path: Path
) -> None:
    values = values_of(stored)
    if form.make is jsonl:
        values = [value for value in values if math.isfinite(value)]
    for number, dtype in enumerate(form.wanted):
        rule = form.rule
        if rule(values[0], dtype) is None:
            continue  # there is nothing to be served
        folder = tmp_path / str(number)
        folder.mkdir()
        corpus = form.make(folder, to_array(values, stored), dtype)
        found = delivered(corpus, len(values))
        wrong = [
            (value, one, rule(value, dtype))
            for value, one in zip(values, found, strict=True)
            if not same(one, rule(value, dtype), dtype)
        ]
        assert not wrong, f"{stored} as {dtype}"


TEXTS = ["0.1", "1e-320", "123456789.125", "3.4028235677973362e38"]
TEXTS += ["65519.999999999999999999", "1.000000059604644775390625"]
TEXTS += ["1.00000005960464477539062500000000000000000001"]
TEXTS += ["1.00000005960464477539062499999999999999999999", "16777217.0", "16777219.0"]
TEXTS += ["1.00048828125", "1.0004882812500000000000000000000000001"]
TEXTS += ["1.00390625000000000000000001", "7.0064923216240853546186479164495e-46"]
TEXTS += ["7.0064923216240853546186479164497e-46", "2.98023223876953125e-8"]
TEXTS += ["2.98023223876953125000000000000001e-8", "-8.9406967163085938e-8"]
TEXTS += ["9007199254740993.0", "1e23", "-1.7976931348623157e308", "1e400", "1e39", "-65520.0"]


def texts_in_json(folder: Path, dtype: np.dtype[Any], **shape: Any) -> sh.Deserializer:
    texts = [f"[{text}]" if shape.get("shape") else text for text in TEXTS]
    (folder / "x.jsonl").write_text("".join(f'{{"x": {text}}}\n' for text in texts))
    return sh.JSONLDeserializer(folder / "x.jsonl", streams(dtype, **shape))


def texts_of_cntk(folder: Path, dtype: np.dtype[Any]) -> sh.Deserializer:
    lines = [f"{number} |X {text}\n" for number, text in enumerate(TEXTS)]
    (folder / "x.ctf").write_text("".join(lines))
    return sh.CTFDeserializer(folder / "x.ctf", streams(dtype, "X", shape=1))


def texts_in_a_table(folder: Path, dtype: np.dtype[Any]) -> sh.Deserializer:
    (folder / "x.csv").write_text("".join(f"{text}\n" for text in ["x", *TEXTS]))
    return sh.CSVDeserializer(folder / "x.csv", streams(dtype))


ROUNDED = [
    *((partial(texts_in_json, shape=shape), dtype) for shape in ((), (1,)) for dtype in FLOATS),
    *((texts_of_cntk, dtype) for dtype in (SINGLE, DOUBLE)),
    *((texts_in_a_table, dtype) for dtype in FLOATS),
]


@pytest.mark.parametrize(("make", "dtype"), ROUNDED)
def test_decimal_text_is_rounded_once_to_the_float_that_is_declared(
    make: Any, dtype: np.dtype[Any], tmp_path: Path
) -> None:
    found = delivered(make(tmp_path, dtype), len(TEXTS))
    for text, one in zip(TEXTS, found, strict=True):
        wanted = round_to(Fraction(text), dtype)
        assert (None if one is None else Fraction(float(one))) == wanted, text
