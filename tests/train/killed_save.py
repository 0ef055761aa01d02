"""Saves checkpoints in children that are killed at every system call: run by test_kill.py.

usage: killed_save.py FOLDER SCENARIO

A child waits until strace holds it, then saves. It is killed at its first mkdir, at its second,
and so on until it is through, and the same for every other kind of call. After each kill the
store must have its old checkpoint or the new one, whole, and take the next one. Prints the
number of kills of each kind of call as JSON.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from sweephand.train.checkpoint import Checkpoint, CheckpointStore

CALLS = "openat,mkdir,mkdirat,write,fsync,close,rename,renameat,renameat2,unlink,unlinkat,rmdir"


def contents(text: str) -> dict[str, object]:
    state = json.dumps({"text": text}).encode()
    return {
        "state.json": lambda sink: sink.write(state),
        "model.npz": lambda sink: [sink.write(bytes(20_000)) for _ in range(2)],
    }


def prepare(folder: Path, scenario: str) -> CheckpointStore:
    store = CheckpointStore(folder)
    for number in range(scenario == "replace"):
        store.write(number, contents(f"old {number}"))
    return store


def text_of(checkpoint: Checkpoint | None) -> str | None:
    return None if checkpoint is None else checkpoint.state()["text"]


def kill_at(call: str, count: int, store: CheckpointStore) -> bool:
    """Save in a child that is killed at one system call; False if it was through before."""
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        store.write(store.next_number(), contents("new"))
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    fault = f"inject={call}:signal=KILL:when={count}"
    tracer = subprocess.Popen(
        ["strace", "-fqq", "-o/dev/null", f"-etrace={call}", f"-e{fault}", f"-p{child}"],
        stderr=subprocess.PIPE,
        text=True,
    )
    status = Path(f"/proc/{child}/status")
    while "TracerPid:\t0" in status.read_text():
        if tracer.poll() is not None:
            os.kill(child, signal.SIGKILL)
            sys.exit(f"strace is not permitted here: {tracer.stderr.read()}")
    os.kill(child, signal.SIGCONT)
    _, code = os.waitpid(child, 0)
    tracer.communicate()
    if os.WIFSIGNALED(code):
        assert os.WTERMSIG(code) == signal.SIGKILL, code
        return True
    assert os.waitstatus_to_exitcode(code) == 0, code
    return False


def main() -> None:
    root, scenario = Path(sys.argv[1]), sys.argv[2]
    template = prepare(root / "template", scenario)
    old = text_of(template.newest())
    kills = {}
    for call in CALLS.split(","):
        for count in range(1, 1000):
            folder = root / "store"
            if template.folder.exists():
                shutil.copytree(template.folder, folder)
            store = CheckpointStore(folder, template.keep_last, run=template.run)
            was_killed = kill_at(call, count, store)
            found = text_of(store.newest())
            assert found == "new" or (was_killed and found == old), (call, count, found)
            store.write(store.next_number(), contents("next"))
            assert text_of(store.newest()) == "next", (call, count)
            assert not [path for path in folder.iterdir() if path.name.startswith(".")]
            shutil.rmtree(folder)
            if not was_killed:
                break
            kills[call] = count
    print(json.dumps(kills))


if __name__ == "__main__":
    main()
