"""A module per bucket, all of them over the same parameters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import nn

from sweephand.extend import check_int

Factory = Callable[[Any], nn.Module]
Backend = str | Callable[..., Any]


class BucketingModule(nn.Module):
    """A module that switches between one executor per bucket, all with the same parameters.

    ``switch_bucket(key)`` chooses; calling the module calls the chosen one. Parameters, their
    gradients and an optimizer's state are common to all. ``state_dict`` is that of the default
    bucket's module, as if there were no buckets.

    Parameters
    ----------
    factory_or_module : callable or Module
        ``factory(bucket_key)`` returns a module whose parameters and persistent buffers are
        replaced by those of the same names in the default bucket's; or one module for all.
    default_bucket_key : hashable
        The bucket whose module is made first and owns the parameters; take the largest.
    max_executors : int
        Number of executors to keep; beyond it the least recently used one is dropped, and made
        again on demand.
    backend : str or callable, optional
        Of `torch.compile`: every bucket is compiled for its own static shapes, so that torch's
        limit of eight recompilations leaves no bucket uncompiled. With
        ``"inductor"`` and parameters on a CUDA device a bucket becomes a CUDA graph.

    Raises
    ------
    TypeError
        If the factory returns anything but a module.
    ValueError
        If the parameters of a new bucket have other names, shapes or dtypes.

    Examples
    --------
    >>> import torch, sweephand.torch
    >>> module = sweephand.torch.BucketingModule(torch.nn.Linear(4, 2), default_bucket_key=32)
    >>> for key in (16, 32, 16):
    ...     module.switch_bucket(key)
    ...     _ = module(torch.zeros(key, 4))
    >>> module.num_executors, sorted(module.state_dict())
    (2, ['bias', 'weight'])
    """

    _default: nn.Module

    def __init__(
        self,
        factory_or_module: Factory | nn.Module,
        default_bucket_key: Hashable,
        max_executors: int = 32,
        backend: Backend | None = None,
    ) -> None:
        super().__init__()
        check_int("max_executors", max_executors, 1, 2**31)
        self.default_bucket_key = default_bucket_key
        self.current_bucket_key = default_bucket_key
        self._max_executors = max_executors
        self._backend = backend
        self._factory = None if isinstance(factory_or_module, nn.Module) else factory_or_module
        default = (
            factory_or_module
            if isinstance(factory_or_module, nn.Module)
            else _make(factory_or_module, default_bucket_key)
        )
        # Not a submodule: its parameters are ours, by the same names.
        self.__dict__["_default"] = default
        self._parameters = default._parameters
        self._buffers = default._buffers
        self._modules = default._modules
        self._non_persistent_buffers_set = default._non_persistent_buffers_set
        self._version = default._version
        self.training = default.training
        self._made = {name: _describe(tensor) for name, tensor in _tensors(default).items()}
        self._executors: OrderedDict[Hashable, _Executor] = OrderedDict()
        self.switch_bucket(default_bucket_key)
        self.register_load_state_dict_post_hook(_start_over)  # type: ignore[no-untyped-call]

    @property
    def num_executors(self) -> int:
        """Executors that are kept."""
        return len(self._executors)

    def switch_bucket(self, bucket_key: Hashable) -> None:
        """Choose the bucket of the next calls, and build its executor if it is missing.

        Raises
        ------
        ValueError
            If its parameters cannot be tied; the bucket stays as it was.
        """
        if bucket_key not in self._executors:
            self._executors[bucket_key] = self._build(bucket_key)
        self._executors.move_to_end(bucket_key)
        self.current_bucket_key = bucket_key
        while len(self._executors) > self._max_executors:
            self._executors.popitem(last=False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module of the bucket that was chosen last."""
        return self._executors[self.current_bucket_key].call(*args, **kwargs)

    def train(self, mode: bool = True) -> BucketingModule:
        """Set all executors to training or evaluation."""
        self.training = mode
        self._default.train(mode)
        for executor in self._executors.values():
            executor.module.train(mode)
        return self

    def _save_to_state_dict(self, *args: Any) -> None:
        self._default._save_to_state_dict(*args)

    def _load_from_state_dict(self, *args: Any) -> None:
        self._default._load_from_state_dict(*args)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> BucketingModule:
        """Move or convert the parameters, and rebuild the executors."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        _start_over(self)
        return self

    def _build(self, bucket_key: Hashable) -> _Executor:
        module: nn.Module = self._default
        if self._factory is not None and bucket_key != self.default_bucket_key:
            module = _make(self._factory, bucket_key)
            self._check_same(module, bucket_key)
            _tie(module, self._default)
            module.train(self.training)
        if self._backend is None:
            return _Executor(module, module)
        return _Executor(_compile(module, self._backend), module)

    def _check_same(self, module: nn.Module, bucket_key: Hashable) -> None:
        """Raise unless a module has the same tensors as the default one had."""
        found = {name: _describe(tensor) for name, tensor in _tensors(module).items()}
        for name in {**self._made, **found}:
            mine, theirs = found.get(name, "missing"), self._made.get(name, "missing")
            if mine != theirs:
                raise ValueError(
                    f"{name!r} of bucket {bucket_key!r} is {mine}, in the default bucket "
                    f"{self.default_bucket_key!r} it is {theirs}"
                )


def _start_over(module: BucketingModule, _keys: object = None) -> None:
    """Rebuild the executors, whose parameters may be other objects now."""
    module._executors.clear()
    module.switch_bucket(module.current_bucket_key)


class _Executor(NamedTuple):
    """A callable, and its module."""

    call: Callable[..., Any]
    module: nn.Module


def _make(factory: Factory, bucket_key: Any) -> nn.Module:
    module = factory(bucket_key)
    if not isinstance(module, nn.Module):
        raise TypeError(f"the factory must return a Module, it made {module!r}")
    return module


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and persistent buffers by name."""
    return {
        name: tensor
        for name, tensor in module.state_dict(keep_vars=True).items()
        if isinstance(tensor, torch.Tensor)
    }


def _describe(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)} {tensor.dtype}"


def _tie(module: nn.Module, default: nn.Module) -> None:
    """Replace parameters and persistent buffers by the default's, and move the rest to it."""
    owned = _tensors(default)
    for name, tensor in owned.items():
        owner, leaf = _owner(module, name)
        if isinstance(tensor, nn.Parameter):
            owner._parameters[leaf] = tensor
        else:
            owner._buffers[leaf] = tensor
    like = next(iter(owned.values()), None)
    for name, buffer in module.named_buffers():
        owner, leaf = _owner(module, name)
        if like is not None and leaf in owner._non_persistent_buffers_set:
            owner._buffers[leaf] = buffer.to(like.device)


def _owner(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, leaf = name.rpartition(".")
    return module.get_submodule(path), leaf


def _compile(module: nn.Module, backend: Backend) -> Callable[..., Any]:
    """Compile a call of the module with a code object of its own.

    Compiled code hangs at code objects, at most eight pieces at each.
    """

    def execute(*args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    own = FunctionType(
        execute.__code__.replace(), execute.__globals__, closure=execute.__closure__
    )
    on_cuda = any(parameter.is_cuda for parameter in module.parameters())
    mode = "reduce-overhead" if on_cuda and backend == "inductor" else None
    compiled: Callable[..., Any] = torch.compile(own, backend=backend, dynamic=False, mode=mode)
    return compiled
