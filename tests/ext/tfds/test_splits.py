import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweephand.ext.tfds import ReadInstruction, even_splits
from sweephand.ext.tfds.splits import as_split

LENGTHS = {"s": [4, 0, 7, 3], "test": [10], "h": [100], "g": [50, 100], "t-1_x": [5]}


def interval(spec: str, lengths: dict[str, list[int]] = LENGTHS) -> tuple[int, int]:
    (found,) = as_split(spec).resolve(lengths)
    return found.begin, found.end


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("s[10%:50]", "different units"),
        ("s[1%:2shard]", "different units"),
        ("s[1shard:2]", "different units"),
        ("s[5:2]", "ends at example 2, before it begins at 5"),
        ("s[9:6]", "before it begins"),
        ("s[6:5]", "before it begins"),
        ("s[:0shard]", "an end of 0 shards as the whole split"),
        ("s[99shard]", "has 4 shards"),
        ("s[-5shard]", "has 4 shards"),
        ("s[15:]", "has 14 examples, 15 is outside"),
        ("s[:-15]", "has 14 examples, -15 is outside"),
        ("s[:]", "a slice needs a number"),
        ("s[]", "is no split"),
        ("s[5]", "is no split"),
        ("s[5%]", "is no split"),
        ("s[::]", "is no split"),
        ("s[%:]", "a slice needs a number"),
        (" s", "is no split"),
        ("s ", "is no split"),
        ("s [:5]", "is no split"),
        ("", "is no split"),
        ("s+", "is no split"),
        ("s[1.5:]", "expected an integer, found '1.5'"),
        ("s[1.5shard]", "expected an integer"),
        ("s[1__0:]", "expected an integer"),
        ("s[1.2.3%:]", "expected a number"),
        ("s[101%:]", "within 100 %"),
        ("all[:5]", "'all' cannot be sliced"),
        ("g[:50](closest)", "only percentages are rounded"),
        ("g[1shard](closest)", "only percentages are rounded"),
        ("g[:1shard](pct1_dropremainder)", "only percentages are rounded"),
        ("g[:50%](down)", "rounding must be 'closest' or 'pct1_dropremainder'"),
        ("g(closest)", "is no split"),
        ("s[:50%](pct1_dropremainder)", "needs 100 examples, split 's' has 14"),
        (
            "nowhere",
            r"there is no split 'nowhere'; there are \['g', 'h', 's', 't-1_x', 'test'\]",
        ),
    ],
)
def test_a_trap_is_a_value_error(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_split(spec).resolve(LENGTHS)


@pytest.mark.parametrize(("spec", "expected"), [("h[:-0.4%]", (0, 0)), ("h[-0.4%:]", (0, 100))])
def test_a_negative_percentage_that_rounds_to_nothing_warns(
    spec: str, expected: tuple[int, int]
) -> None:
    with pytest.warns(UserWarning, match="rounds to 0"):
        assert interval(spec) == expected


def test_instructions_and_text_can_be_added() -> None:
    instruction = ReadInstruction("s", to=3)
    for split in (instruction + "test", "s[:3]" + ReadInstruction("test")):
        assert split.resolve(LENGTHS) == as_split("s[:3]+test").resolve(LENGTHS)
        assert str(split) == "s[:3]+test"
    assert ReadInstruction.from_spec("s[:3]") == instruction


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unit": "examples"}, "unit must be"),
        ({"rounding": "up"}, "rounding must be"),
        ({"from_": 101, "unit": "%"}, "within 100 %"),
        ({"to": float("nan"), "unit": "%"}, "within 100 %"),
        ({"to": 1.5}, "must be an int"),
        ({"to": True}, "must be a number"),
    ],
)
def test_an_instruction_checks_its_numbers(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReadInstruction("s", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("to", "end"), [(12.5, 25), (1.5, 3), (-99.5, 1), (1.1, None)])
def test_a_fraction_of_a_step_of_one_percent_is_whole_examples(
    to: float, end: int | None
) -> None:
    split = ReadInstruction("s", to=to, unit="%", rounding="pct1_dropremainder")
    if end is None:
        with pytest.raises(ValueError, match=r"1.1 steps of 2 examples"):
            split.resolve({"s": [200]})
    else:
        assert split.resolve({"s": [200]}) == [("s", 0, end)]


@given(size=st.integers(0, 1000), count=st.integers(1, 50))
def test_even_parts_cover_the_split(size: int, count: int) -> None:
    parts = [part.resolve({"x": [size]})[0] for part in even_splits("x", count)]
    assert [part.begin for part in parts] == [0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == size
    assert max(part.end - part.begin for part in parts) - size // count <= 1


@pytest.mark.parametrize("count", [0, -1, 1.0, True])
def test_the_number_of_parts_is_a_positive_int(count: object) -> None:
    with pytest.raises(ValueError, match="n must be"):
        even_splits("test", count)  # type: ignore[arg-type]


def test_a_split_is_text_or_a_split() -> None:
    with pytest.raises(TypeError, match="split must be a str or a Split, got int"):
        as_split(5)  # type: ignore[arg-type]


@given(spec=st.text("s[]:%-+0123456789._ hard", max_size=12))
def test_any_text_is_a_split_or_a_value_error(spec: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = as_split(spec).resolve(LENGTHS)
        except ValueError:
            return
    for part in found:
        assert 0 <= part.begin <= part.end <= sum(LENGTHS[part.split])


@pytest.mark.parametrize("rounding", ["closest", "pct1_dropremainder"])
@pytest.mark.parametrize(("from_", "to"), [(None, 50), (50, None), (-10, None), (25, 75)])
def test_the_text_of_an_instruction_selects_the_same(
    rounding: str, from_: int | None, to: int | None
) -> None:
    split = ReadInstruction("g", from_, to, "%", rounding)  # type: ignore[arg-type]
    assert as_split(str(split)) == split
    both = split + "test[:3]"
    assert as_split(str(both)).resolve(LENGTHS) == both.resolve(LENGTHS)


def test_percentages_are_rounded_as_is_said() -> None:
    assert interval("g[-10%:](pct1_dropremainder)") == (140, 150)
    assert interval("g[-10%:](closest)") == (135, 150)
