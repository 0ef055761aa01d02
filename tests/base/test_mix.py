"""Integer mixing and digests, against definitions in plain Python integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweephand import _core

MASK = 2**64 - 1
words = st.integers(0, MASK)


def mix64(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def derive_key(values: list[int]) -> int:
    key = 0
    for i, value in enumerate(values):
        key = mix64(key ^ mix64(value + 0x9E3779B97F4A7C15 * (i + 1) & MASK))
    return key


def digest(data: bytes) -> str:
    lanes = [mix64(i + 1) for i in range(4)]
    for start in range(0, len(data), 32):
        stripe = data[start : start + 32].ljust(32, b"\0")
        for i in range(4):
            word = int.from_bytes(stripe[8 * i : 8 * i + 8], "little")
            lane = lanes[i] + word * 0x9E3779B97F4A7C15 & MASK
            lanes[i] = (lane << 31 | lane >> 33) * 0xBF58476D1CE4E5B9 & MASK
    return "".join(f"{derive_key([half, *lanes, len(data)]):016x}" for half in (0, 1))


@given(words)
def test_mix64_is_the_splitmix64_finalizer(x: int) -> None:
    assert _core.testing.mix64(x) == mix64(x)


def test_mix64_gives_the_published_splitmix64_sequence() -> None:
    # The generator with seed 1234567 adds 0x9e37... before each output.
    outputs = [_core.testing.mix64(1234567 + 0x9E3779B97F4A7C15 * i & MASK) for i in (1, 2, 3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.lists(words, max_size=8))
def test_a_key_is_derived_as_written_down(values: list[int]) -> None:
    assert _core.base.derive_key(values) == derive_key(values)


@given(words, words)
def test_scaling_is_the_high_half_of_the_product(random64: int, bound: int) -> None:
    assert _core.testing.scale(random64, bound) == random64 * bound >> 64


@given(words, words)
def test_a_sum_or_product_is_exact_or_an_error(a: int, b: int) -> None:
    for function, exact in (
        (_core.testing.checked_add, a + b),
        (_core.testing.checked_mul, a * b),
    ):
        if exact <= MASK:
            assert function(a, b) == exact
        else:
            with pytest.raises(OverflowError, match="exceeds 64 bits"):
                function(a, b)


@given(st.lists(st.binary(max_size=100), max_size=5))
def test_a_digest_of_parts_is_the_digest_of_the_whole(parts: list[bytes]) -> None:
    whole = _core.base.Digest()
    for part in parts:
        whole.update(part)
    assert whole.hex() == digest(b"".join(parts))
