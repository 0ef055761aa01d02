"""The script of every framework runs, and goes on exactly."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "examples" / "frameworks"
CASES = [
    (path.name, backend)
    for path in sorted(SCRIPTS.glob("*_loop.py"))
    for backend in (("torch", "jax") if path.name == "keras_loop.py" else ("",))
]


def skip_without(name: str) -> None:
    """Skip where the framework of a script is not installed; two do without theirs."""
    needed = name.removesuffix("_loop.py")
    if needed not in ("megatron", "torchtitan") and not importlib.util.find_spec(needed):
        extra = "trainers" if needed == "deepspeed" else "frameworks"
        pytest.skip(f"{needed} is not installed: pip install 'sweephand[{extra}]'")


@pytest.mark.parametrize(("name", "backend"), CASES)
def test_a_stopped_run_goes_on_exactly(name: str, backend: str, tmp_path: Path) -> None:
    skip_without(name)
    env = os.environ | {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "JAX_PLATFORMS": "cpu",
        "KERAS_BACKEND": backend,
        "KERAS_HOME": str(tmp_path / "keras"),
        "OMP_NUM_THREADS": "1",
    }
    run = subprocess.run(
        [sys.executable, SCRIPTS / name],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-6000:]
    assert ": True" in run.stdout
    assert ": False" not in run.stdout
    print(run.stdout)
