"""Dataclasses of the package beside those of the standard library, which they are to be."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar
from importlib import import_module
from typing import Any, ClassVar

import pytest

from sweephand.base import dataclass as ours
from tests.test_layers import modules


def body(namespace: Any, decorate: Callable[..., Any], field: Callable[..., Any]) -> Any:
    """Return a dataclass and an heir with all that the package uses."""

    @decorate(frozen=True)
    class Base:
        """Of bytes."""

        kind: ClassVar[str] = "base"
        a: int
        b: str = "b"
        hidden: list[int] = field(default_factory=list, repr=False, compare=False)

    @decorate(frozen=True)
    class Heir(Base):
        """Of bytes, checked."""

        _: KW_ONLY
        c: float
        b: str = "other"
        d: int = field(default=3, metadata={"unit": "s"})
        twice: InitVar[bool] = False

        def __post_init__(self, twice: bool) -> None:
            if self.a < 0:
                raise ValueError(f"a must be at least 0, got {self.a}")
            if twice:
                object.__setattr__(self, "a", 2 * self.a)

    @decorate(frozen=True, kw_only=True, repr=False, eq=False)
    class Plain:
        """Neither compared nor shown."""

        x: int
        y: int = 0

    for cls in (Base, Heir, Plain):
        setattr(namespace, cls.__name__, cls)
    return namespace


class Standard:
    """Those of the standard library."""


class Shared:
    """Those of the package."""


body(Standard, dataclasses.dataclass, dataclasses.field)
body(Shared, ours.dataclass, ours.field)
BOTH = (Standard, Shared)


def result(run: Callable[[Any], Any], where: Any) -> object:
    """Return what comes of it, or the error."""
    try:
        return run(where)
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error)


RUNS: dict[str, Callable[[Any], Any]] = {
    "shown": lambda of: repr(of.Base(1)),
    "heir": lambda of: repr(of.Heir(1, "x", c=4.0)),
    "values": lambda of: list(vars(of.Heir(b="x", c=4.0, a=1)).items()),
    "arguments that are not held": lambda of: vars(of.Heir(1, c=1.0, twice=True)),
    "checked": lambda of: of.Heir(-1, c=1.0),
    "none given": lambda of: of.Base(),
    "none given to heir": lambda of: of.Heir(),
    "lacking": lambda of: of.Heir(1),
    "unknown": lambda of: of.Base(1, z=2),
    "twice": lambda of: of.Base(1, a=2),
    "too many": lambda of: of.Base(1, 2, 3, 4),
    "by name alone": lambda of: of.Heir(1, "b", [], 3.0),
    "by names alone": lambda of: of.Plain(1),
    "two lacking": lambda of: of.Plain(),
    "equal": lambda of: of.Base(1, "b", [1]) == of.Base(1, "b", [2]),
    "unequal": lambda of: of.Base(1) == of.Base(2),
    "of other classes": lambda of: of.Base(1) == of.Heir(1, c=0.0),
    "not compared": lambda of: of.Plain(x=1) == of.Plain(x=1),
    "hash": lambda of: hash(of.Heir(1, c=2.0)),
    "set": lambda of: setattr(of.Base(1), "a", 2),
    "set of none": lambda of: setattr(of.Base(1), "z", 2),
    "deleted": lambda of: delattr(of.Heir(1, c=2.0), "a"),
    "class": lambda of: (of.Base.b, of.Heir.d, hasattr(of.Base, "hidden"), of.Heir.kind),
    "signatures": lambda of: [
        str(inspect.signature(cls)) for cls in (of.Base, of.Heir, of.Plain)
    ],
    "matched": lambda of: (of.Base.__match_args__, of.Heir.__match_args__),
    "fields": lambda of: [
        (one.name, one.type, one.repr, one.compare, dict(one.metadata), one.kw_only)
        for one in dataclasses.fields(of.Heir)
    ],
    "frozen": lambda of: of.Heir.__dataclass_params__.frozen,
    "is one": lambda of: (dataclasses.is_dataclass(of.Base), dataclasses.is_dataclass(int)),
    "as dict": lambda of: dataclasses.asdict(of.Heir(1, c=2.0)),
    "changed": lambda of: repr(dataclasses.replace(of.Heir(1, c=2.0), c=3.0)),
    "changed to wrong": lambda of: dataclasses.replace(of.Heir(1, c=2.0), a=-3),
    "changed of none": lambda of: dataclasses.replace(of.Base(1), z=2),
    "copied": lambda of: repr(copy.deepcopy(of.Heir(1, c=2.0))),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_class_does_what_a_standard_one_does(name: str) -> None:
    standard, shared = (result(RUNS[name], where) for where in BOTH)
    assert shared == standard


def test_replace_of_the_package_is_that_of_the_standard_library() -> None:
    heir = Shared.Heir(1, "x", c=2.0)  # type: ignore[attr-defined]
    for changes in ({}, {"a": 5}, {"twice": True}, {"a": -1}, {"z": 0}):
        ways = (ours.replace, dataclasses.replace)
        first, second = (result(lambda f, c=changes: repr(f(heir, **c)), way) for way in ways)
        assert first == second


def test_a_plain_heir_and_a_standard_one_keep_the_fields_of_their_base() -> None:
    base: Any = Shared.Base  # type: ignore[attr-defined]

    class Heir(base):  # type: ignore[misc]
        """Adds nothing."""

        def __init__(self) -> None:
            super().__init__(7)

    @dataclasses.dataclass(frozen=True)
    class Standards(base):  # type: ignore[misc]
        """Adds a field."""

        more: int = 1

    assert [one.name for one in dataclasses.fields(Heir)] == ["a", "b", "hidden"]
    assert str(inspect.signature(Heir)) == "() -> 'None'"
    assert vars(Heir()) == {"a": 7, "b": "b", "hidden": []}
    given = Standards(1, "x", [], 4)
    assert ours.replace(given, more=5) == Standards(1, "x", [], 5)
    assert str(inspect.signature(Standards)).endswith("more: 'int' = 1) -> None")


def test_an_instance_that_holds_itself_can_be_shown() -> None:
    base: Any = Shared.Base  # type: ignore[attr-defined]
    of_itself = base([])
    of_itself.a.append(of_itself)
    assert repr(of_itself) == "body.<locals>.Base(a=[...], b='b')"


def test_what_classes_of_the_package_cannot_do_is_refused() -> None:
    with pytest.raises(TypeError, match="standard library"):
        ours.dataclass()
    with pytest.raises(TypeError, match="slots"):
        ours.dataclass(frozen=True, slots=True)
    with pytest.raises(TypeError, match=r"\['init'\]: take the standard"):
        ours.field(init=False)

    class Heir(Standard.Base):  # type: ignore[name-defined, misc]
        """Of a standard class."""

    with pytest.raises(TypeError, match="Heir is ours, and its base Base is not"):
        ours.dataclass(frozen=True)(Heir)


def classes_of_the_package() -> list[type]:
    """Return all dataclasses whose methods are shared."""
    found = set[type]()
    for module in modules():
        if module and not module.startswith(("torch", "ray", "mxnet", "__main__")):
            names = vars(import_module(f"sweephand.{module}"))
            found |= {
                one for one in names.values() if "__shape__" in getattr(one, "__dict__", ())
            }
    return sorted((one for one in found if isinstance(one, type)), key=lambda one: one.__name__)


def test_every_class_has_the_fields_and_the_signature_of_a_standard_one() -> None:
    found = classes_of_the_package()
    assert len(found) > 100
    for cls in found:
        standard = cls.__shape__.spell_out()  # type: ignore[attr-defined]
        assert cls.__match_args__ == standard.__match_args__, cls  # type: ignore[attr-defined]
        if cls.__init__ is cls.__shape__.init:  # type: ignore[misc, attr-defined]
            assert str(inspect.signature(cls)) == str(inspect.signature(standard)), cls


def test_instances_are_pickled_as_before() -> None:
    import sweephand as sh

    packed = sh.Packed(128)
    again = pickle.loads(pickle.dumps(packed))
    assert again == packed
    assert hash(again) == hash(packed)


def test_modules_whose_classes_are_all_frozen_take_them_from_the_package() -> None:
    standard = {
        module: re.findall(r"^ *@dataclass.*", path.read_text(), re.MULTILINE)
        for module, path in modules().items()
        if "from dataclasses import" in path.read_text()
    }
    assert standard["run.job"], "they are found at all"
    assert not [
        module
        for module, used in standard.items()
        if used
        and all("frozen=True" in one for one in used)
        and "\nfrom sweephand.base.dataclass import" not in modules()[module].read_text()
    ]
