"""Two ranks on a network of their own, whose cable is cut; for test_faults.py.

usage: unshare -rn python -m tests.torch.network FOLDER

Each rank has a network namespace, with an end of a cable between both. What becomes of each is
printed as JSON: its exit code, what it raised, and how many seconds after the cut.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.torch.launch import environment, free_port
from tests.torch.ranks import SIZE, begin, hurry, make_source, raised

CLONE_NEWNET = 0x40000000
LIMIT = 5.0  # of an exchange, in seconds: more than the machine may hold a rank up


def train(rank: int, folder: Path) -> list[Any]:
    """Train until the cable is cut, and tell what was raised, when, and where one stands."""
    import torch
    import torch.distributed as dist

    from sweephand.torch.distributed import Control

    begin(12)  # of collectives in a step
    source, steps = make_source(randomization_seed=4), 0

    def loop() -> None:
        nonlocal steps
        with Control(20.0) as control:
            hurry(control, LIMIT)
            for share in control.minibatches(source, SIZE):
                steps += 1
                dist.all_reduce(torch.ones(3) * share.num_samples)
                (folder / f"step-{rank}").write_text(str(steps))

    told = raised(loop)
    cut = (folder / "cut").stat().st_mtime
    return [*told, time.time() - cut, source.current_position, steps]


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


def join_cable(rank: int) -> None:
    """Give this process's end of the cable an address."""
    ip(f"addr add 10.77.0.{rank + 1}/24 dev sh{rank}")
    for name in ("lo", f"sh{rank}"):
        ip(f"link set {name} up")


def run_rank(rank: int, folder: Path, port: int, is_joined: int) -> None:
    """Be a rank, in a namespace of its own, once its end of the cable is there."""
    if rank == 1:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        (folder / "apart").touch()
        os.read(is_joined, 1)
        join_cable(1)
    os.environ.update(environment(rank, 2, port))
    os.environ["MASTER_ADDR"], os.environ["GLOO_SOCKET_IFNAME"] = "10.77.0.1", f"sh{rank}"
    (folder / f"told-{rank}").write_text(json.dumps(train(rank, folder)))


def main() -> None:
    folder = Path(sys.argv[1])
    import torch

    import sweephand.torch  # noqa: F401 # one import for both ranks

    torch.set_num_threads(1)
    ip("link add name sh0 type veth peer name sh1")
    join_cable(0)
    (is_joined, join), children, port = os.pipe(), [], free_port()
    for rank in (0, 1):
        child = os.fork()
        if child == 0:
            try:
                run_rank(rank, folder, port, is_joined)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    while not (folder / "apart").exists():
        time.sleep(0.01)
    ip(f"link set sh1 netns {children[1]}")
    os.write(join, b"1")
    while not all((folder / f"step-{rank}").exists() for rank in (0, 1)):
        time.sleep(0.01)
    (folder / "cut").touch()
    ip("link set sh0 down")
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    told = [json.loads((folder / f"told-{rank}").read_text()) for rank in (0, 1)]
    print(json.dumps([[code, *one] for code, one in zip(codes, told, strict=True)]))


if __name__ == "__main__":
    main()
