"""An error of one rank is the same on the others, and names the rank."""

import pickle
from typing import Any

import pytest

import sweephand as sh
from sweephand.train.trainer.workers import ErrorMessage, WorkerError


def told(error: Exception) -> Exception:
    """Return what rank 0 makes of an error on rank 3."""
    return pickle.loads(pickle.dumps(ErrorMessage.of(error, 3))).error()


class Odd(Exception):
    """It is made of what it does not tell."""

    def __init__(self, one: int, *, other: int) -> None:
        super().__init__(f"{one} and {other}")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no such size"), "on rank 3: no such size"),
        (KeyError("x"), "'on rank 3: x'"),
        (
            sh.DataError("cut", "a.bin", 7, None, "x", 2),
            "a.bin @ 7 [stream 'x', sequence",
        ),
        (sh.StaleError("the file changed", "a.bin"), "a.bin: on rank 3: the file changed"),
        (
            FileNotFoundError(2, "No such file", "a.bin"),
            "[Errno 2] on rank 3: No such",
        ),
        (
            sh.LossScaleError("too many", 5, 2.0, "inf", ("w",), ("a__1",)),
            "on rank 3: too many",
        ),
    ],
)
def test_type_message_and_place_are_kept(error: Exception, said: str) -> None:
    other = told(error)
    assert type(other) is type(error)
    assert str(other).startswith(said)
    for name in ("file", "offset", "sequence", "filename", "errno", "step", "minibatch_ids"):
        assert getattr(other, name, None) == getattr(error, name, None)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Odd(1, other=2), "on rank 3: Odd: 1 and 2"),
        (RuntimeError(), "on rank 3: RuntimeError: "),
        (RuntimeError(lambda: 0), "on rank 3: RuntimeError: <function"),
        (MemoryError(), "on rank 3: MemoryError: "),
    ],
)
def test_what_cannot_be_made_again_is_told_in_words(error: Exception, said: str) -> None:
    other: Any = told(error)
    assert type(other) is WorkerError
    assert str(other).startswith(said)
    assert other.ranks == (3,)
    assert pickle.loads(pickle.dumps(other)).ranks == (3,)
