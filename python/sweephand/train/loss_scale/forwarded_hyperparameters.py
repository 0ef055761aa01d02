"""Hyperparameters of the optimizers inside a loss scale, as its own attributes."""

from difflib import get_close_matches
from typing import Any

from sweephand.train.loss_scale.optimizers import Optimizers

_GROUPS = (
    "a schedule of torch goes around that one, LambdaLR(opt.inner_optimizer, ...), and steps "
    "after opt.step()"
)
_INSTEAD = {  # of an inner optimizer's attributes
    "param_groups": _GROUPS,
    "state": "it holds the moments; opt.state_dict() holds the scale",
    "update": "opt.update(gradient_sums, num_samples) takes the step",
}
_OF_A_SCALER = {  # names of torch's GradScaler
    "scale": "it is opt.get_scaled_loss(loss), and the number opt.loss_scale",
    "get_scale": "it is opt.loss_scale",
    "get_growth_interval": "it is opt.dynamic_growth_steps",
    "is_enabled": "it is opt.dynamic",
    "backward": "write opt.get_scaled_loss(loss).backward(), and opt.step()",
}


class ForwardsHyperparameters:
    """A wrapper whose attributes include the hyperparameters of the wrapped optimizers.

    A subclass sets ``_inner`` before all else.
    """

    _inner: Optimizers

    def __getattr__(self, name: str) -> Any:
        """Return a hyperparameter: its value, or a tuple of them where the groups differ."""
        if name.startswith("_") or name not in self._inner.hyperparameters():
            raise AttributeError(self._unknown(name))
        values = self._inner.read(name)
        return values[0] if all(value == values[0] for value in values) else tuple(values)

    def __dir__(self) -> list[str]:
        """Return the names of attributes, with the hyperparameters."""
        return sorted({*super().__dir__(), *self._inner.hyperparameters()})

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a hyperparameter in every group."""
        if name.startswith("_") or hasattr(type(self), name):
            super().__setattr__(name, value)
        elif name in self._inner.hyperparameters():
            self._inner.write(name, value)
        else:
            raise AttributeError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        kind = type(self).__name__
        if name.startswith("_"):
            return f"{kind} has no attribute {name!r}"
        inner: Any = self.__dict__.get("_inner_optimizer")
        several = isinstance(inner, list | tuple)
        if hasattr(inner[0] if several else inner, name):
            own = f"opt.inner_optimizer{'[0]' if several else ''}.{name}"
            instead = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
            return f"{kind} has no {name!r} of its own: it is {own}{instead}"
        if name in _OF_A_SCALER:
            return f"{kind} has no {name!r}: {_OF_A_SCALER[name]}"
        known = sorted(self._inner.hyperparameters())
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return (
            f"{kind} has no attribute or hyperparameter {name!r}{hint}. "
            f"The inner optimizer has {', '.join(known)}"
        )
