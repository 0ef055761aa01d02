"""Ranks of torch.distributed for tests: forked from one process, as an import takes seconds.

usage: python -m tests.torch.launch NUM_RANKS MODULE FUNCTION,... FOLDER

Every rank calls ``function(rank, num_ranks, folder)`` in the environment that torchrun gives
it, in a process of its own. What becomes of each is printed as JSON.
"""

import importlib
import json
import os
import socket
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """How a rank has ended: its exit code, and what it returned."""

    code: int
    found: Any


def launch(
    num_ranks: int, functions: list[str], folder: Path, module: str, limit: float = 600
) -> dict[str, list[Ended]]:
    """Run functions of a module, one after the other, and return how each rank ended."""
    command = [sys.executable, "-m", "tests.torch.launch", str(num_ranks), module]
    run = subprocess.run(
        [*command, ",".join(functions), str(folder)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=limit,
        check=True,
    )
    print(run.stderr[-8000:])  # shown by a test that fails
    told = json.loads(run.stdout.splitlines()[-1])
    return {name: [Ended(*one) for one in ranks] for name, ranks in told.items()}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(rank: int, num_ranks: int, port: int) -> dict[str, str]:
    """Return what torchrun says to a rank."""
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_ranks, "MASTER_PORT": port}
    return {name: str(value) for name, value in ranks.items()} | {"MASTER_ADDR": "127.0.0.1"}


def run_ranks(count: int, function: Any, folder: Path) -> list[Ended]:
    """Fork ranks, and wait for all of them."""
    port, children = free_port(), []
    for rank in range(count):
        child = os.fork()
        if child == 0:
            os.environ.update(environment(rank, count, port))
            try:
                found = json.dumps(function(rank, count, folder))
                (folder / f"{function.__name__}-{rank}.json").write_text(found)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    told = [folder / f"{function.__name__}-{rank}.json" for rank in range(count)]
    return [
        Ended(code, json.loads(path.read_text()) if path.exists() else None)
        for code, path in zip(codes, told, strict=True)
    ]


def main() -> None:
    count, module, functions, folder = sys.argv[1:]
    import torch._dynamo  # what optimizers import, before there are children

    import sweephand.torch  # noqa: F401

    torch.set_num_threads(1)
    called = importlib.import_module(module)
    told = {
        name: run_ranks(int(count), getattr(called, name), Path(folder))
        for name in functions.split(",")
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
