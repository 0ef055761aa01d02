"""A user's program is clean for strict type checkers, and runs; stubs export their names."""

import ast
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.typing import user_program

import sweephand as sh
from sweephand.base.public_names import importable_names

ROOT = Path(__file__).parents[2]
PROGRAM = Path(user_program.__file__)
PACKAGE = Path(sh.__file__).parent


def test_a_users_program_runs(tmp_path: Path) -> None:
    user_program.main(tmp_path)


def test_a_users_program_runs_with_torch() -> None:
    pytest.importorskip("torch")
    assert user_program.train_torch(user_program.make_arrays()) >= 0


def test_a_users_program_names_what_is_public() -> None:
    text = PROGRAM.read_text()
    kinds = [
        name
        for name in importable_names(sh)
        if name.endswith(("Deserializer", "Config", "Data"))
    ]
    missing = [name for name in kinds if f"sh.{name}" not in text]
    assert not missing


@pytest.mark.exhaustive
def test_mypy_finds_nothing_in_a_users_program() -> None:
    pytest.importorskip("torch")
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    command = [sys.executable, "-m", "mypy", "--config-file", PROGRAM.with_name("mypy.ini")]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "python")}
    run = subprocess.run(
        [*command, PROGRAM], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_pyright_finds_nothing_in_a_users_program(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if shutil.which("pyright") is None:
        pytest.skip("pyright is not installed")
    shutil.copy(PROGRAM, tmp_path)
    settings = {
        "include": [PROGRAM.name],
        "extraPaths": [str(ROOT / "python")],
        "typeCheckingMode": "strict",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["pyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    "stub", sorted(PACKAGE.glob("**/__init__.pyi")), ids=lambda p: p.parent.name
)
def test_stubs_export_by_as(stub: Path) -> None:
    """A name of a stub that is imported without `as` is private; jedi looks at no `__all__`."""
    if "_core" in stub.parts:
        pytest.skip("generated")
    imported = [
        node
        for node in ast.walk(ast.parse(stub.read_text()))
        if isinstance(node, ast.ImportFrom)
    ]
    without = [alias.name for node in imported for alias in node.names if alias.asname is None]
    assert imported
    assert not without
