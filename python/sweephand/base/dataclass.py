"""Frozen dataclasses with shared methods, which no import has to compile.

``dataclasses`` writes six methods for each class and compiles them when the class is made, in
0.4 ms, and a first loop makes fifty classes. For type checkers these are its own, and so they
are for its functions: the fields are spelled out for them when they ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from inspect import Signature

__all__ = ["dataclass", "field", "fields", "replace"]

T = TypeVar("T")
Method = Callable[..., Any]

_set_field = object.__setattr__
_NOTHING = object()


# -- the fields --
class FieldOptions(dict[str, Any]):
    """The arguments of `field`, in the place of a default."""

    def __init__(self, **given: Any) -> None:
        if not given.keys() <= _OPTIONS:
            raise TypeError(f"{sorted(given.keys() - _OPTIONS)}: take the standard dataclasses")
        super().__init__(given)


_OPTIONS = {"compare", "default", "default_factory", "kw_only", "metadata", "repr"}


class _Field:
    """A field by its annotation and the arguments of `field`."""

    __slots__ = ("annotation", "is_argument", "is_needed", "kw_only", "name", "options")

    def __init__(
        self, name: str, annotation: object, options: Mapping[str, Any], kw_only: bool
    ) -> None:
        self.name, self.annotation, self.options = name, annotation, options
        self.kw_only = options.get("kw_only", kw_only)
        self.is_needed = "default" not in options and "default_factory" not in options
        # Of __post_init__ alone: no instance holds it.
        self.is_argument = str(annotation).startswith("InitVar")

    # As those of the standard library name them.
    @property
    def default(self) -> object:
        if "default" in self.options:
            return self.options["default"]
        from dataclasses import MISSING

        return MISSING

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.options.get("metadata") or {}

    @property
    def repr(self) -> bool:
        return bool(self.options.get("repr", True))


class _Shape:
    """The fields of a class, those of its bases first."""

    __slots__ = ("cls", "eq", "fields", "init", "positional", "standard")

    def __init__(self, cls: type, eq: bool, kw_only: bool) -> None:
        self.cls, self.eq = cls, eq
        self.fields: dict[str, _Field] = {}
        for base in cls.__mro__[-1:0:-1]:
            if (shape := base.__dict__.get("__shape__")) is not None:
                self.fields.update(shape.fields)
            elif "__dataclass_fields__" in base.__dict__:
                raise TypeError(f"{cls.__name__} is ours, and its base {base.__name__} is not")
        for name, annotation in cls.__annotations__.items():
            if annotation == "KW_ONLY":
                kw_only = True
            elif not str(annotation).removeprefix("typing.").startswith("ClassVar"):
                options = _options_of(cls, name)
                self.fields[name] = _Field(name, annotation, options, kw_only)
        self.positional = tuple(one.name for one in self.fields.values() if not one.kw_only)
        self.standard: type | None = None
        self.init: Method | None = None  # that which is made here

    def seen_by(self, method: str) -> tuple[str, ...]:
        """Return the names of the fields that a method looks at."""
        return tuple(
            one.name
            for one in self.fields.values()
            if not one.is_argument and one.options.get(method, True)
        )

    def compared(self) -> Callable[[Any], object]:
        """Return a function that gives the values by which instances are compared."""
        names = self.seen_by("compare")
        if len(names) > 1:
            return attrgetter(*names)
        return lambda instance: tuple([getattr(instance, name) for name in names])

    def signature(self) -> Signature:
        """Return the signature of the class."""
        from inspect import Parameter, Signature

        def parameter(one: _Field) -> Parameter:
            kind = Parameter.KEYWORD_ONLY if one.kw_only else Parameter.POSITIONAL_OR_KEYWORD
            default = one.options.get("default", Parameter.empty if one.is_needed else _MADE)
            return Parameter(one.name, kind, default=default, annotation=one.annotation)

        in_order = sorted(self.fields.values(), key=lambda one: bool(one.kw_only))
        return Signature([parameter(one) for one in in_order], return_annotation=None)

    def spell_out(self) -> type:
        """Return the class that the standard library makes of these fields, and keep it."""
        if self.standard is None:
            import dataclasses

            # Annotations that are text mean the names of the module that the class is of.
            body: dict[str, Any] = {"__module__": "dataclasses", "__doc__": self.cls.__doc__}
            body["__qualname__"] = self.cls.__qualname__
            body["__annotations__"] = {one.name: one.annotation for one in self.fields.values()}
            for one in self.fields.values():
                body[one.name] = dataclasses.field(**{**one.options, "kw_only": one.kw_only})
            made = type(self.cls.__name__, (), body)
            self.standard = dataclasses.dataclass(frozen=True, eq=self.eq)(made)
        return self.standard


class _Made:
    """A default that is made for each instance, in signatures."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


def _options_of(cls: type, name: str) -> Mapping[str, Any]:
    """Return the arguments of `field`, and leave the default in its place."""
    given = cls.__dict__.get(name, _NOTHING)
    if given is _NOTHING:
        return {}
    if not isinstance(given, FieldOptions):
        return {"default": given}
    if "default" in given:
        setattr(cls, name, given["default"])
    else:
        delattr(cls, name)
    return given


# -- the methods --
def _init(shape: _Shape) -> Method:
    fields, positional = shape.fields, shape.positional
    defaults = {one.name: one.options.get("default") for one in fields.values()}
    makers = [one for one in fields.values() if "default_factory" in one.options]
    arguments = [one.name for one in fields.values() if one.is_argument]
    needed = [name for name in positional if fields[name].is_needed]
    needed_by_name = [one.name for one in fields.values() if one.is_needed and one.kw_only]
    fewest = len(needed) if not needed_by_name else len(fields)  # that need no other
    is_plain = len(positional) == len(fields) and not arguments
    is_checked = hasattr(shape.cls, "__post_init__")

    def fits(args: tuple[Any, ...], given: Mapping[str, Any]) -> bool:
        return (
            len(args) <= len(positional)
            and given.keys() <= fields.keys()
            and given.keys() >= {*needed[len(args) :], *needed_by_name}
            and given.keys().isdisjoint(positional[: len(args)])
        )

    def __init__(self: Any, /, *args: Any, **given: Any) -> None:
        if is_plain and len(args) == len(positional) and not given:
            for name, value in zip(positional, args, strict=True):
                _set_field(self, name, value)
            if is_checked:
                self.__post_init__()
            return
        if (given or not fewest <= len(args) <= len(positional)) and not fits(args, given):
            shape.spell_out()(*args, **given)  # raises the error of Python
        values = defaults.copy()
        values.update(zip(positional, args, strict=False))
        values.update(given)
        for one in makers:
            if one.name not in given and one.name not in positional[: len(args)]:
                values[one.name] = one.options["default_factory"]()
        rest = [values.pop(name) for name in arguments]
        for name, value in values.items():
            _set_field(self, name, value)
        if is_checked:
            self.__post_init__(*rest)

    return __init__


def _repr(shape: _Shape) -> Method:
    names = shape.seen_by("repr")

    @recursive_repr()
    def __repr__(self: Any) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({values})"

    return __repr__


def _eq(shape: _Shape) -> Method:
    compared = shape.compared()

    def __eq__(self: Any, other: object) -> Any:
        if type(other) is not type(self):
            return NotImplemented
        return compared(self) == compared(other)

    return __eq__


def _hash(shape: _Shape) -> Method:
    compared = shape.compared()

    def __hash__(self: Any) -> int:
        return hash(compared(self))

    return __hash__


def _setattr(shape: _Shape) -> Method:
    cls: Any = shape.cls

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in shape.fields:
            raise _frozen(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    return __setattr__


def _delattr(shape: _Shape) -> Method:
    cls: Any = shape.cls

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in shape.fields:
            raise _frozen(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __delattr__


def _frozen(reason: str) -> AttributeError:
    from dataclasses import FrozenInstanceError

    return FrozenInstanceError(reason)


_METHODS: Mapping[str, Callable[[_Shape], Method]] = {
    "init": _init,
    "repr": _repr,
    "eq": _eq,
    "hash": _hash,
    "setattr": _setattr,
    "delattr": _delattr,
}


# -- what is written in classes --
class _SpelledOut:
    """An attribute by which the standard library knows its dataclasses."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, cls: Any) -> Any:
        return getattr(cls.__shape__.spell_out(), self._name)


class _SignatureOf:
    """The signature of a class that has no constructor of its own."""

    def __get__(self, instance: object, cls: Any) -> Signature:
        shape: _Shape = cls.__shape__
        if instance is not None or cls.__init__ is not shape.init:
            raise AttributeError("__signature__")
        return shape.signature()


_ATTRIBUTES = {
    "__dataclass_fields__": _SpelledOut("__dataclass_fields__"),
    "__dataclass_params__": _SpelledOut("__dataclass_params__"),
    "__signature__": _SignatureOf(),
}


def _dataclass(
    *,
    frozen: bool = False,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    kw_only: bool = False,
) -> Callable[[type[T]], type[T]]:
    if not frozen:
        raise TypeError("dataclasses that change are those of the standard library")
    wanted = {"init": init, "repr": repr, "eq": eq, "hash": eq}

    def decorate(cls: type[T]) -> type[T]:
        shape = _Shape(cls, eq, kw_only)
        given: dict[str, Any] = {"__shape__": shape, "__match_args__": shape.positional}
        for short, make in _METHODS.items():
            name = f"__{short}__"
            if wanted.get(short, True) and cls.__dict__.get(name) is None:
                method = given[name] = make(shape)
                method.__qualname__ = f"{cls.__qualname__}.{name}"
                method.__module__ = cls.__module__
        shape.init = given.get("__init__")
        for name, value in {**given, **_ATTRIBUTES, "__replace__": _replace}.items():
            setattr(cls, name, value)
        return cls

    return decorate


# -- the functions --
def _replace(instance: T, /, **changes: Any) -> T:
    cls = type(instance)
    if (shape := cls.__dict__.get("__shape__")) is None:  # an heir, or no class of this kind
        from dataclasses import replace

        return replace(instance, **changes)  # type: ignore[type-var]
    return cls(**{name: getattr(instance, name) for name in shape.fields} | changes)


def _fields(given: Any) -> tuple[Any, ...]:
    cls = given if isinstance(given, type) else type(given)
    if (shape := cls.__dict__.get("__shape__")) is None:  # an heir, or no class of this kind
        from dataclasses import fields

        return fields(given)
    # Not those that the standard library would make, as it compiles methods for that.
    return tuple([one for one in shape.fields.values() if not one.is_argument])


if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
else:
    dataclass, field, fields, replace = _dataclass, FieldOptions, _fields, _replace
