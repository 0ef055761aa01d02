"""Sources under Ray: who shares the data, where a worker group goes on, and desks in actors."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sweephand import MinibatchSource
from sweephand.extend import OptionalModule, RemoteDesk

__all__ = ["LoanDesk", "coordinate", "report", "restore"]

_STATE = "sweephand.json"
_ray, _train = OptionalModule("ray", "ray"), OptionalModule("ray.train", "ray")


def coordinate() -> tuple[int, int]:
    """Return how many workers of Ray Train share the data, and which of them this is.

    It is called in the function that each worker runs. After a failure, or when the number of
    workers changes, Ray runs that function again, and the number is another one.

    Returns
    -------
    (int, int)
        ``num_data_partitions`` and ``partition_index``. Where ranks share a model (tensor,
        pipeline or context parallel), take `sh.torch.distributed.coordinate` of the mesh.

    Raises
    ------
    ImportError
        If Ray is not installed.
    RuntimeError
        Outside of a worker.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> def train(config):  # for TorchTrainer(train)
    ...     source = sh.MinibatchSource({"x": np.arange(6)}, max_sweeps=1)
    ...     K, rank = sh.ray.coordinate()
    ...     for share in source.minibatches(4, num_data_partitions=K, partition_index=rank):
    ...         print(share["x"].values)
    """
    try:
        context = _train.get_context()
        return int(context.get_world_size()), int(context.get_world_rank())
    except RuntimeError as error:
        raise RuntimeError(
            "this is no worker of Ray Train: call it in the function that a trainer of "
            "ray.train runs, such as TorchTrainer(function)"
        ) from error


def report(
    source: MinibatchSource,
    metrics: Mapping[str, Any],
    save: Callable[[Path], object] | None = None,
) -> None:
    """Report metrics to Ray, with a checkpoint that has the place in the data.

    All workers call it, as Ray waits for all of them.

    Parameters
    ----------
    source : MinibatchSource
        Its state is the same on all workers; one of them writes it.
    metrics : mapping
        As for ``ray.train.report``.
    save : callable, optional
        ``save(folder)`` writes what else a worker has: shards on each of them, or the model on
        one. Ray joins the folders of all workers.

    Raises
    ------
    ImportError, RuntimeError
        As `coordinate`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> def train(config):  # its workers end, and go on, with the same number of steps
    ...     source = sh.MinibatchSource({"x": np.arange(6)}, max_sweeps=1)
    ...     sh.ray.restore(source)
    ...     K, rank = sh.ray.coordinate()
    ...     for share in source.minibatches(4, num_data_partitions=K, partition_index=rank):
    ...         sh.ray.report(source, {"samples": source.current_position})
    """
    _, rank = coordinate()
    with tempfile.TemporaryDirectory(prefix="sweephand-") as name:
        folder = Path(name)
        if save is not None:
            save(folder)
        if rank == 0:
            (folder / _STATE).write_text(json.dumps(source.state_dict(), allow_nan=False))
        checkpoint = None
        if any(folder.iterdir()):
            checkpoint = _train.Checkpoint.from_directory(name)
        _train.report(dict(metrics), checkpoint=checkpoint)


def restore(source: MinibatchSource, load: Callable[[Path], object] | None = None) -> bool:
    """Restore the last reported checkpoint, saved by any number of workers.

    Parameters
    ----------
    source : MinibatchSource
        It goes to where the state was taken.
    load : callable, optional
        ``load(folder)`` reads what `save` wrote.

    Returns
    -------
    bool
        True if there is a checkpoint.

    Raises
    ------
    ImportError, RuntimeError
        As `coordinate`.
    ValueError
        If it has no place in the data, as it was not made by `report`.
    StateError
        If the source is another one.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> def train(config):
    ...     source, weights = sh.MinibatchSource({"x": np.arange(6)}), np.zeros(3)
    ...     def load(folder):
    ...         weights[:] = np.load(folder / "weights.npy")
    ...     if sh.ray.restore(source, load):
    ...         print("gone on at", source.current_position)
    """
    coordinate()
    checkpoint = _train.get_checkpoint()
    if checkpoint is None:
        return False
    with checkpoint.as_directory() as name:
        folder = Path(name)
        if not (folder / _STATE).exists():
            raise ValueError(
                f"the checkpoint has no {_STATE}, which sh.ray.report(source, metrics) writes"
            )
        source.load_state_dict(json.loads((folder / _STATE).read_text()))
        if load is not None:
            load(folder)
    return True


class LoanDesk(RemoteDesk):
    """A `Desk` in an actor of Ray, for takers on any node.

    It pickles, so that tasks and actors take it as an argument. Calls of an actor may come
    twice where Ray retries them, so tickets that have ended are ignored by default; what was
    taken by a call whose answer is lost comes again when it expires.

    Parameters
    ----------
    make_source : callable
        Makes the source, in the actor.
    copies : int
        Tickets of each sequence.
    **options
        Of the actor, as ``ray.remote`` takes them. Ray does not start it again by itself: what
        is out is in the checkpoint of the run, which goes back to that.

    Raises
    ------
    ImportError
        If Ray is not installed.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> def make_source():
    ...     return sh.MinibatchSource({"prompt": np.arange(5)}, max_sweeps=1)
    >>> def generate():  # in a program that has called ray.init()
    ...     desk = sh.ray.LoanDesk(make_source, copies=8)
    ...     while not desk.is_finished:
    ...         desk.done(desk.take(2).tickets)
    """

    repeated = "ignore"

    def __init__(
        self, make_source: Callable[[], MinibatchSource], copies: int = 1, **options: Any
    ) -> None:
        made = _ray.remote(_DeskActor).options(**options)
        self._actor = made.remote(make_source, copies)

    def ask(self, name: str, *arguments: Any) -> Any:
        """Return what the desk in the actor answers."""
        return self.taken(_ray.get(self._actor.ask.remote(name, arguments)))


class _DeskActor:
    """The desk, where it is."""

    def __init__(self, make_source: Callable[[], MinibatchSource], copies: int) -> None:
        self._desk = make_source().lend(copies)

    def ask(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        return RemoteDesk.answer(self._desk, name, arguments)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
