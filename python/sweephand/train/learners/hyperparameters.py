"""The hyperparameters of optimizers: their names, their ranges, and those of a checkpoint."""

import logging
from typing import Any, Literal, TypeAlias

from sweephand.source.schedules import Schedule
from sweephand.train.arguments import check_decay, check_rate

logger = logging.getLogger("sweephand")

# Which hold after a restore: those of the checkpoint, or those of the present learners.
Restored: TypeAlias = Literal["checkpoint", "given"]

RATES = {"lr", "learning_rate", "weight_decay", "eps", "epsilon"}
DECAYS = {"momentum", "rho", "beta_1", "beta_2"}
HYPERPARAMETERS = RATES | DECAYS | {"betas"}
# The names by which states, rules and Keras call a hyperparameter or each of its parts.
PARTS = {"betas": ("beta_1", "beta_2"), "eps": ("epsilon",)}


def check_hyperparameter(name: str, value: object) -> None:
    """Raise if ``value`` cannot be the hyperparameter ``name``.

    Rates are finite and at least 0, decays lie in [0, 1), or it is a ValueError; a value
    that is no number, or for ``betas`` no pair, is a TypeError. Other names are left to the
    optimizer.
    """
    if name == "betas":
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise TypeError(f"betas must be a pair of numbers, got {value!r}")
        check_hyperparameter("beta_1", value[0])
        check_hyperparameter("beta_2", value[1])
    elif name in RATES:
        check_rate(name, value)
    elif name in DECAYS:
        check_decay(name, value)


def check_restored(value: object) -> None:
    """Raise ValueError unless the value says which hyperparameters hold after a restore."""
    if value not in ("checkpoint", "given"):
        raise ValueError(f"hyperparameters must be 'checkpoint' or 'given', got {value!r}")


def report_restored(name: str, restored: object, given: object) -> None:
    """Log a hyperparameter of a checkpoint that takes the place of another."""
    if restored != given:
        logger.warning(
            "%s is %s as in the checkpoint, not %s; restore with hyperparameters='given' to "
            "keep the latter",
            name,
            restored,
            given,
        )


Decay: TypeAlias = float | Schedule[float]


def checked(name: str, value: Any) -> Any:
    """Return a hyperparameter that may be a schedule, or raise as `check_hyperparameter`."""
    if name == "betas":
        beta_1, beta_2 = value
        return checked("beta_1", beta_1), checked("beta_2", beta_2)
    if not isinstance(value, Schedule):
        check_hyperparameter(name, value)
    return value
