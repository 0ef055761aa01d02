"""The command line."""

import subprocess
import sys

import sweephand


def test_the_version_is_that_of_the_package() -> None:
    command = [sys.executable, "-m", "sweephand", "--version"]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout.strip() == sweephand.__version__
