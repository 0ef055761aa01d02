"""What the package shows is what it says that it has."""

import ast
import importlib
import json
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sweephand as sh
from sweephand.base.public_names import attach_names, importable_names

PACKAGE = Path(sh.__file__).parent
STUBS = [path for path in PACKAGE.glob("**/__init__.pyi") if path.parent.name != "_core"]


@pytest.mark.parametrize(
    "name",
    [
        *(".io", ".learners", ".logging"),
        *(
            "",
            ".chat",
            ".decode",
            ".images",
            ".tfds",
            ".numpy",
            ".ray",
            ".tfrecord",
            ".torchft",
            ".train",
        ),
        *(".torch", ".torch.distributed", ".torch.megatron", ".torch.torchtitan"),
        ".torch.transformers",
    ],
)
def test_what_is_shown_is_what_is_public(name: str) -> None:
    code = f"""
import sweephand as sh
room = sh{name}
not_by_star = {{"torch"}} if room.__name__ == "sweephand" else set()
assert set(dir(room)) == {{*room.__all__, *not_by_star}}, set(dir(room)) ^ set(room.__all__)
assert dir(room) == sorted(dir(room))
assert all(getattr(room, public) is not None for public in room.__all__)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_the_package_shows_is_read_at_a_glance() -> None:
    assert len(dir(sh)) <= 60
    assert {*dir(sh)} <= {*importable_names(sh)}
    assert all(hasattr(sh, name) for name in importable_names(sh))


def test_names_of_training_are_flat_only_where_that_is_how_they_are_documented() -> None:
    assert {*dir(sh)} & {*dir(sh.train)} == {
        "LossScaleOptimizer",
        "Trainer",
        "training_session",
    }
    flat = {
        *("CSVProgressWriter", "CheckpointConfig", "CrossValidationConfig"),
        *("JSONLProgressWriter", "LearningRateControl", "LossLedger", "LossScaleOptimizer"),
        *("MinibatchScaling", "PREEMPTED_EXIT_CODE", "ProgressPrinter", "SpikePolicy"),
        *("StepResult", "TensorBoardProgressWriter", "TestConfig", "Trainer"),
        *("learning_parameter_schedule", "learning_parameter_schedule_per_sample"),
        *("momentum_as_time_constant_schedule", "momentum_schedule"),
        *("momentum_schedule_per_sample", "training_session"),
    }
    assert {*importable_names(sh)} & {*dir(sh.train)} == flat
    assert all(getattr(sh, name) is getattr(sh.train, name) for name in flat)
    with pytest.raises(AttributeError, match=r"'Receipts'; it is sweephand\.train\.Receipts"):
        sh.Receipts  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_imports_no_training() -> None:
    code = """
import sys, sweephand as sh
assert "sweephand.train" not in sys.modules
sh.train, dir(sh.train)
assert not [name for name in sys.modules if name.startswith("sweephand.train.")]
assert sh.train.Receipts.__module__ == "sweephand.ext.follow.receipts"
assert "sweephand.train.session.session" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("pyarrow", "parquet", "ParquetDeserializer('x.parquet', {'x': sh.StreamDef()})"),
        ("ray.train", "ray", "ray.coordinate()"),
    ],
)
def test_a_package_that_is_not_there_is_named_with_what_brings_it(
    package: str, extra: str, call: str
) -> None:
    code = f"""
import sys
sys.modules["{package}"] = None
import sweephand as sh
try:
    sh.{call}
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"pip install 'sweephand[{extra}]'" in run.stdout, run.stderr


def test_help_shows_no_limit_as_a_number() -> None:
    for one in (sh.MinibatchSource, sh.MinibatchSourceFromData, sh.training_session):
        assert "1844674407370955161" not in pydoc.plain(pydoc.render_doc(one))
    assert "max_sweeps: 'int' = INFINITELY_REPEAT" in pydoc.render_doc(sh.MinibatchSource)
    assert json.dumps([sh.INFINITELY_REPEAT]) == f"[{2**64 - 1}]"
    assert pickle.loads(pickle.dumps(sh.FULL_DATA_SWEEP)) == 2**64 - 2


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: path.parent.name)
def test_names_are_read_from_a_stub_as_python_parses_it(stub: Path) -> None:
    package = ".".join(["sweephand", *stub.parent.relative_to(PACKAGE).parts])
    if package == "sweephand.torch":
        pytest.importorskip("torch")
    find, show, names = attach_names(package, str(stub.with_suffix(".py")))
    statements = [
        one for one in ast.parse(stub.read_text()).body if isinstance(one, ast.ImportFrom)
    ]
    assert names == show() == sorted(str(one.names[0].asname) for one in statements)
    assert names
    for one in statements:
        name = one.names[0].name
        found = find(str(one.names[0].asname))
        if isinstance(found, ModuleType):
            assert found.__name__.endswith(f".{name}")
        else:
            module = importlib.import_module("." * one.level + str(one.module), package)
            assert found is getattr(module, name)
