import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweephand.ext.tfds import ReadInstruction
from sweephand.ext.tfds.splits import as_split

LENGTHS = {"s": [4, 0, 7, 3], "test": [10], "h": [100], "g": [50, 100], "t-1_x": [5]}


def interval(spec: str, lengths: dict[str, list[int]] = LENGTHS) -> tuple[int, int]:
    (found,) = as_split(spec).resolve(lengths)
    return found.begin, found.end


# More than what was recorded of TFDS.
@pytest.mark.parametrize(
    "spec",
    [
        *("s[-5shard]", "s[15:]", "s[:-15]", "s[%:]", " s", "s ", "s [:5]", "", "s[1.5shard]"),
        *("s[1__0:]", "s[1.2.3%:]", "g[:50](closest)", "g[1shard](closest)", "g(closest)"),
        *("g[:1shard](pct1_dropremainder)", "g[:50%](down)", "s[:50%](pct1_dropremainder)"),
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
