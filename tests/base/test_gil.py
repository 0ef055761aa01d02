"""A free-threaded Python stays one."""

import subprocess
import sys
import sysconfig

import pytest


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL"
)
def test_importing_the_core_leaves_the_gil_off() -> None:
    code = "import sys; from sweephand import _core; print(sys._is_gil_enabled())"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True
    )
    assert run.stdout.split() == ["False"]
