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
    "spec",
    [
        *(
            "s[10%:50]",
            "s[1%:2shard]",
            "s[1shard:2]",
            "s[5:2]",
            "s[9:6]",
            "s[6:5]",
            "s[:0shard]",
        ),
        *("s[99shard]", "s[-5shard]", "s[15:]", "s[:-15]", "s[:]", "s[]", "s[5]", "s[5%]"),
        *(
            "s[::]",
            "s[%:]",
            " s",
            "s ",
            "s [:5]",
            "",
            "s+",
            "s[1.5:]",
            "s[1.5shard]",
            "s[1__0:]",
        ),
        *("s[1.2.3%:]", "s[101%:]", "all[:5]", "g[:50](closest)", "g[1shard](closest)"),
        *("g[:1shard](pct1_dropremainder)", "g[:50%](down)", "g(closest)", "nowhere"),
        "s[:50%](pct1_dropremainder)",
    ],
)
def test_a_trap_is_a_value_error(spec: str) -> None:
    with pytest.raises(ValueError, match=r"split|must|begins"):
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
    assert as_split("s[:3]") == instruction


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
