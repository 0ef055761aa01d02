"""Ranks of one node that read a corpus through one cache, each in a process of its own.

usage: python -m tests.read.node_cache JOB

They are forked from one process, as an import takes its time. What becomes of each is printed
as JSON.
"""

import json
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from tests.read.forked import fork

import sweephand as sh
from sweephand.corpus import chunks
from sweephand.files import node_cache

ROOT = Path(__file__).parents[2]
CHUNK_BYTES = 1024


def write_tokens(folder: Path, num_chunks: int) -> Path:
    """Write tokens that make so many chunks, each another one, and a third for a mixture."""
    folder.mkdir(exist_ok=True)
    tokens = np.arange(num_chunks * CHUNK_BYTES // 2, dtype=np.uint16)
    tokens.tofile(folder / "tokens.bin")
    tokens[::-3].tofile(folder / "more.bin")
    return folder


def make_source(
    url: str, cache: sh.NodeCache | None, *, mixed: bool = False, **options: Any
) -> sh.MinibatchSource:
    """Return a source of the tokens in a store, or of both files in a mixture."""
    corpora = {
        name: sh.RawTokensDeserializer(f"{url}/{name}.bin", "uint16", 32)
        for name in ("tokens", "more")[: 1 + mixed]
    }
    corpus: sh.Deserializer = corpora["tokens"]
    if mixed:
        corpus = sh.Mixture(corpora, {"tokens": 3, "more": 1}, at_end="stop")
    options = {"num_lanes": 6, "randomization_window_in_chunks": 12} | options
    with mock.patch.object(chunks, "CHUNK_BYTES", CHUNK_BYTES):
        return sh.MinibatchSource(corpus, node_cache=cache, **options)


def read_all(
    source: sh.MinibatchSource,
    count: int = 1,
    index: int = 0,
    behind_each: Callable[[], object] = lambda: None,
) -> int:
    """Return a checksum of all that a worker gets; do something after each minibatch."""
    found = 0
    for minibatch in source.minibatches(512, num_data_partitions=count, partition_index=index):
        found = zlib.crc32(minibatch["tokens"].values.tobytes(), found)
        behind_each()
    return found


def run(
    job: dict[str, Any], limit: float = 600, module: str = "tests.read.node_cache"
) -> list[dict[str, Any]]:
    """Have ranks do a job in another process, and return what became of each."""
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps(job)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    print(done.stderr[-4000:])  # shown by a test that fails
    done.check_returncode()
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _work(
    job: dict[str, Any],
    count: int,
    index: int,
    behind_each: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    if "most_file_bytes" in job:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["most_file_bytes"],) * 2)
    # A rank that the machine holds up is waited for, unless that is what is tried.
    node_cache._FETCH_SECONDS = node_cache._TURN_SECONDS = job.get("patience", 60.0)
    cache = sh.NodeCache(job["folder"], job["max_bytes"])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        options = {"max_sweeps": job["sweeps"], "mixed": job.get("mixed", False)}
        with make_source(job["url"], cache, **options) as source:
            content = read_all(source, count, index, behind_each)
            stats = source.stats()
    return {"content": content, "warnings": [str(one.message) for one in told], **stats}


def _interrupt(job: dict[str, Any], draw: random.Random, base: Path, how: int) -> list[int]:
    """Begin the job, and send all ranks a signal at some moment; return their processes."""
    children = [fork(partial(_work, job, *rank), base / "interrupted") for rank in job["ranks"]]
    time.sleep(draw.uniform(0, job["longest"]))
    for child in children:
        os.kill(child, how)
    return children


def _main(job: dict[str, Any]) -> None:
    base = Path(job["folder"]).with_name("told")
    base.mkdir(exist_ok=True)
    draw = random.Random(job.get("seed", 0))
    stopped = []
    for _ in range(job.get("kills", 0)):
        for child in _interrupt(job, draw, base, signal.SIGKILL):
            os.waitpid(child, 0)
    for _ in range(job.get("stops", 0)):
        stopped += _interrupt(job, draw, base, signal.SIGSTOP)
    outs = [base / f"{i}.json" for i in range(len(job["ranks"]))]
    step = multiprocessing.get_context("fork").Barrier(len(outs), timeout=60)
    more = [step.wait] if job.get("in_step") else []
    children = [
        fork(partial(_work, job, *rank, *more), out)
        for rank, out in zip(job["ranks"], outs, strict=True)
    ]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for child in stopped:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    told = [
        json.loads(out.read_text()) if code == 0 else {}
        for out, code in zip(outs, codes, strict=True)
    ]
    print(json.dumps([{"code": code, **one} for code, one in zip(codes, told, strict=True)]))


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
