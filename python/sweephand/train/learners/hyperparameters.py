"""The hyperparameters of optimizers: their ranges, and how a wrapper forwards them."""

import math
from difflib import get_close_matches
from typing import Any, Protocol, TypeAlias

from sweephand.checks import check_number
from sweephand.train.schedules.schedule import Schedule

RATES = {"lr", "learning_rate", "weight_decay", "eps", "epsilon"}
DECAYS = {"momentum", "rho", "beta_1", "beta_2"}
HYPERPARAMETERS = RATES | DECAYS | {"betas"}
# The names by which states, rules and Keras call a hyperparameter or each of its parts.
PARTS = {"betas": ("beta_1", "beta_2"), "eps": ("epsilon",)}


def check_hyperparameter(name: str, value: object) -> None:
    """Raise if ``value`` cannot be the hyperparameter ``name``.

    Names that are not known here are left to the optimizer that has them.

    Raises
    ------
    TypeError
        If it is no number, or ``betas`` no pair.
    ValueError
        If it lies outside its range: rates are finite and at least 0, decays lie in [0, 1).
    """
    if name == "betas":
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise TypeError(f"betas must be a pair of numbers, got {value!r}")
        check_hyperparameter("beta_1", value[0])
        check_hyperparameter("beta_2", value[1])
    if name not in RATES | DECAYS:
        return
    if name in RATES:
        check_rate(name, value)
    elif not 0 <= check_number(name, value) < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {value!r}")


def check_rate(name: str, value: object) -> float:
    """Return a finite number of at least 0, or raise as `check_hyperparameter`."""
    number = check_number(name, value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be finite and at least 0, got {value!r}")
    return number


Decay: TypeAlias = float | Schedule[float]


def checked(name: str, value: Any) -> Any:
    """Return a hyperparameter that may be a schedule, or raise as `check_hyperparameter`."""
    if name == "betas":
        beta_1, beta_2 = value
        return checked("beta_1", beta_1), checked("beta_2", beta_2)
    if not isinstance(value, Schedule):
        check_hyperparameter(name, value)
    return value


class HasBetas:
    """Two decays, both together or each by its name."""

    betas: tuple[Decay, Decay]

    @property
    def beta_1(self) -> Decay:
        """The first one."""
        return self.betas[0]

    @beta_1.setter
    def beta_1(self, decay: Decay) -> None:
        self.betas = decay, self.betas[1]

    @property
    def beta_2(self) -> Decay:
        """The second one."""
        return self.betas[1]

    @beta_2.setter
    def beta_2(self, decay: Decay) -> None:
        self.betas = self.betas[0], decay


class HasEpsilon:
    """A small number that keeps a quotient finite, by both of its names."""

    eps: float

    @property
    def epsilon(self) -> float:
        """The same as ``eps``."""
        return self.eps

    @epsilon.setter
    def epsilon(self, eps: float) -> None:
        self.eps = eps


class HasHyperparameters(Protocol):
    """What a wrapper forwards hyperparameters to."""

    def hyperparameters(self) -> set[str]:
        """Return the names that can be read and written."""

    def read(self, name: str) -> list[Any]:
        """Return the value in every group that has it."""

    def write(self, name: str, value: Any) -> None:
        """Set the value in every group that has it."""


class PassesHyperparametersOn:
    """A wrapper whose attributes include the hyperparameters of what it wraps.

    A subclass sets ``_inner`` before all else.
    """

    _inner: HasHyperparameters

    def __getattr__(self, name: str) -> Any:
        """Return a hyperparameter: its value, or a tuple of them where the groups differ."""
        if name.startswith("_") or name not in self._inner.hyperparameters():
            raise AttributeError(self._unknown(name))
        values = self._inner.read(name)
        return values[0] if all(value == values[0] for value in values) else tuple(values)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a hyperparameter in every group."""
        if name.startswith("_") or hasattr(type(self), name):
            super().__setattr__(name, value)
        elif name in self._inner.hyperparameters():
            self._inner.write(name, value)
        else:
            raise AttributeError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        known = [] if name.startswith("_") else sorted(self._inner.hyperparameters())
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return (
            f"{type(self).__name__} has no attribute or hyperparameter {name!r}{hint} "
            f"The inner optimizer has {', '.join(known)}"
        )
