"""Processes as torchrun starts them, each a loop of this folder."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def train(client: str, folder: Path, *options: str, count: int = 2) -> list[Any]:
    """Run ranks, and return what each wrote."""
    for code, said in launch(client, folder, *options, count=count):
        assert code == 0, said[-6000:]
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(count)]


def launch(client: str, folder: Path, *options: str, count: int = 2) -> list[tuple[int, str]]:
    """Run ranks as torchrun does, and return how each ended and what it said."""
    folder.mkdir(exist_ok=True)
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "TORCHELASTIC_RUN_ID": "none",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "TORCH_COMPILE_DISABLE": "1",  # kernels for so few steps are not worth it
        "HF_HUB_OFFLINE": "1",
    }
    ranks = []
    for rank in map(str, range(count)):
        said = (folder / f"rank{rank}.txt").open("w+")
        command = [
            sys.executable,
            "-m",
            f"tests.frameworks.{client}_loop",
            str(folder),
            *options,
        ]
        env = os.environ | shared | {"RANK": rank, "LOCAL_RANK": rank}
        run = subprocess.Popen(command, cwd=ROOT, env=env, stdout=said, stderr=said)
        ranks.append((run, said))
    try:
        codes = [run.wait(timeout=900) for run, _ in ranks]
    finally:
        for run, _ in ranks:
            run.kill()
    ended = []
    for code, (_, said) in zip(codes, ranks, strict=True):
        with said:
            said.seek(0)
            ended.append((code, said.read()))
    return ended
