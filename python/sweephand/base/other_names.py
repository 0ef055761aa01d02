"""Names of CNTK and torch that users look for, and their replacements here."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Names of modules and, in the second part, of arguments.
_REPLACEMENTS = {
    "CBFDeserializer": "CTFDeserializer reads the text that ctf2bin.py converts",
    "UnitType training_parameter_schedule learning_rate_schedule": "it is "
    "learning_parameter_schedule_per_sample(x), or learning_parameter_schedule(x)",
    "DataLoader": "minibatches come from source = MinibatchSource(corpus), by "
    "source.sweep(size); a loader of torch is sweephand.torch.DataLoader",
    "Dataset": "sweephand.open(path) opens a path or URL, MapDeserializer(dataset) a data set",
    "IterableDataset": "it is sweephand.torch.IterableDataset(source, size)",
    "GradScaler": "it is LossScaleOptimizer(optimizer)",
    "batch_size minibatch_size": "a size, in samples, is asked for with every loop: "
    "source.sweep(size), or training_session(..., mb_size=...)",
    "shuffle": "it is MinibatchSource(..., randomize=True), the default, or False",
    "sampler batch_sampler": "the source makes the minibatches, in an order of its own",
    "seed generator": "it is MinibatchSource(..., randomization_seed=...)",
    "num_workers": "it is MinibatchSource(..., num_threads=...), or a loader's: "
    "sweephand.torch.DataLoader(dataset, num_workers=...)",
    "collate_fn": "it is MinibatchSource(..., layout=sh.Padded()), or another layout",
    "pin_memory": "tensors come by minibatch.torch(device, non_blocking=True)",
    "drop_last": "leave it out: nothing is dropped",
    "prefetch_factor": "it is MinibatchSource(..., prefetch=...), in minibatches",
    "epochs num_epochs": "it is MinibatchSource(..., max_sweeps=n); a session has max_samples",
    "world_size num_replicas rank": "it is num_data_partitions=K, partition_index=rank",
    "multithreaded_deserializer": "it is MinibatchSource(..., num_threads=1) for False",
    "trace_level": "it is the level of logging.getLogger('sweephand')",
    "model_inputs_to_streams": "the criterion finds a stream as minibatch[name]",
    "epoch_size": "of a source it is MinibatchSource(..., max_samples=...)",
}
_ADVICE = {name: advice for names, advice in _REPLACEMENTS.items() for name in names.split()}


def no_such_name(module: str, name: str, names: Collection[str]) -> AttributeError:
    """Return the error of a module for a name, with its replacement, or one that is near."""
    import sweephand
    from sweephand.base.public_names import importable_names

    hint = ""
    if module != "sweephand" and name in importable_names(sweephand):
        hint = f"; it is sweephand.{name}"
    elif name in _ADVICE:
        hint = f"; {_ADVICE[name]}"
    elif not name.startswith("_"):
        from difflib import get_close_matches  # only here, as it takes its time to import

        close = get_close_matches(name, names, 1, 0.7)
        hint = f"; is it {close[0]!r}?" if close else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def public_face(
    module: str, names: Collection[str]
) -> tuple[Callable[[], list[str]], Callable[[str], NoReturn]]:
    """Return ``__dir__`` and ``__getattr__`` of a module that has a room of CNTK's names."""

    def find(name: str) -> NoReturn:
        raise no_such_name(module, name, names)

    return lambda: sorted(names), find


def answers_other_names(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function that is called by another library's argument name its own."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            found = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            if found is None or found[1] not in _ADVICE:
                raise
            label = function.__qualname__.removesuffix(".__init__")
            raise TypeError(f"{label}() got an {found[0]}: {_ADVICE[found[1]]}") from None

    return call
