"""Names of CNTK and of torch's loader that users look for, and their replacements here."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_WORKERS = (
    "workers ask for their share by num_data_partitions and partition_index; with torch the "
    "model is in a DistributedDataParallel; sweephand.torch.distributed finds both"
)
_FRAMEWORK = (
    "models, losses and devices are the framework's: Trainer(model, criterion, learners) takes "
    "a torch.nn.Module"
)
_LOOP = "minibatches come from source = MinibatchSource(corpus), by source.sweep(size)"

_NAMES = {
    # CNTK's
    "MinibatchSourceConfig": "give its options to MinibatchSource itself",
    "UserMinibatchSource": "write a UserDeserializer, which is shuffled, shared and resumed",
    "StreamInformation": "it is StreamInfo(name, dtype, shape, is_sparse)",
    "StreamConfiguration": "it is StreamDef",
    "text_format_minibatch_source": "it is MinibatchSource(CTFDeserializer(...))",
    "CBFDeserializer": "CTFDeserializer reads the text that ctf2bin.py converts",
    "ImageDeserializer": "it is ImageFolder(map_file), mapped by sh.decode.image",
    "LatticeDeserializer": "a UserDeserializer serves what your code reads",
    "UserLearner": "it is sweephand.torch.Learner around a torch optimizer of your own",
    "sgd momentum_sgd nesterov adagrad fsadagrad adam rmsprop adadelta universal": (
        "learners of arrays are in sweephand.numpy; sweephand.torch.Learner is around any "
        "optimizer of torch"
    ),
    "data_parallel_distributed_learner block_momentum_distributed_learner Communicator "
    "distributed": _WORKERS,
    "input_variable input parameter constant placeholder Variable Axis Function layers ops "
    "functions combine sequence initializer losses relu softmax sigmoid tanh times plus "
    "glorot_uniform cross_entropy_with_softmax classification_error squared_error load_model "
    "cntk_py debugging user_function default_options element_select graph": _FRAMEWORK,
    "UnitType training_parameter_schedule learning_rate_schedule": (
        "it is learning_parameter_schedule_per_sample(x), or learning_parameter_schedule(x)"
    ),
    "transforms": "steps for pictures are in sweephand.ext.vision.images",
    "TraceLevel set_trace_level": "it is the level of logging.getLogger('sweephand')",
    # torch's
    "DataLoader": f"{_LOOP}; a loader of torch is sweephand.torch.DataLoader",
    "Dataset": "sweephand.open(path) opens a path or URL, MapDeserializer(dataset) a data set",
    "IterableDataset": "it is sweephand.torch.IterableDataset(source, size)",
    "GradScaler": "it is LossScaleOptimizer(optimizer)",
    "BucketingModule": "it is sweephand.torch.BucketingModule",
}
_ARGUMENTS = {
    "batch_size minibatch_size": (
        "a size, in samples, is asked for with every loop: source.sweep(size), or "
        "training_session(..., mb_size=...)"
    ),
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


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: text for names, text in table.items() for name in names.split()}


def hint_at(name: str, ours: Collection[str]) -> str:
    """Return the replacement of a name that does not exist, or one of ours that it may mean."""
    if (advice := _by_name(_NAMES).get(name)) is not None:
        return f"; {advice}"
    from difflib import get_close_matches  # only here, as it takes its time to import

    close = [] if name.startswith("_") else get_close_matches(name, ours, 1, 0.7)
    return f"; is it {close[0]!r}?" if close else ""


def no_such_name(module: str, name: str, names: Collection[str]) -> Exception:
    """Return the error of a module for a name; ImportError for ``from module import name``."""
    from dis import opmap

    import sweephand
    from sweephand.base.public_names import importable_names

    caller = sys._getframe(2)
    is_import = caller.f_code.co_code[caller.f_lasti] == opmap["IMPORT_FROM"]
    is_ours = module != "sweephand" and name in importable_names(sweephand)
    hint = f"; it is sweephand.{name}" if is_ours else hint_at(name, names)
    message = f"module {module!r} has no attribute {name!r}{hint}"
    return ImportError(message) if is_import else AttributeError(message)


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
            name = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            advice = _by_name(_ARGUMENTS).get(name[1]) if name else None
            if name is None or advice is None:
                raise
            label = function.__qualname__.removesuffix(".__init__")
            raise TypeError(
                f"{label}() got an unexpected keyword argument {name[1]!r}: {advice}"
            ) from None

    return call
