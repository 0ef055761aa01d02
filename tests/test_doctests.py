"""The examples in the documentation of the installed package run, and say what they do."""

import doctest
import importlib
import pkgutil

import pytest

import sweephand
from sweephand import errors

# Modules that need an optional package, by the name under which it is imported.
OPTIONAL = {"torch", "torchdata", "scipy", "pyarrow", "matplotlib", "ml_dtypes", "fsspec"}

MODULES = ["sweephand"] + [
    found.name
    for found in pkgutil.walk_packages(sweephand.__path__, "sweephand.")
    if found.name not in {"sweephand.__main__", "sweephand._core"}
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    assert doctest.testmod(module).failed == 0


def test_the_examples_are_found() -> None:
    assert doctest.testmod(errors).attempted > 0
