"""Editors that complete by jedi see what there is, and what it takes."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh

PACKAGE = Path(sh.__file__).parent
SOURCE = """import numpy as np
import sweephand as sh
source = sh.MinibatchSource({"x": np.arange(5)})
"""
MINIBATCH = f"{SOURCE}minibatch = source.next_minibatch(4)\n"
WANTED: dict[str, tuple[str, list[str]]] = {
    "public names": ("import sweephand as sh\nsh.Pa", ["Packed", "Padded"]),
    "names to import": ("from sweephand import Min", ["MinibatchSource", "Minibatch"]),
    "a source": (f"{SOURCE}source.", ["next_minibatch", "epoch", "sweep", "find", "streams"]),
    "a minibatch": (f"{MINIBATCH}minibatch.", ["ids", "nominal_time", "num_samples"]),
    "a stream": (f"{MINIBATCH}minibatch['x'].", ["values", "asarray", "torch", "offsets"]),
    "a loop": (f"{SOURCE}for one in source.sweep(4):\n    one.", ["ids", "num_sequences"]),
    "a corpus": ("import sweephand as sh\nsh.open('x').", ["map", "filter"]),
    "a trainer": ("import sweephand as sh\nsh.Trainer(0, 1, 2).", ["train_minibatch"]),
    "layouts by their room": ("from sweephand.layouts import Pa", ["Packed", "Padded"]),
    "what torch has": ("import sweephand as sh\nsh.torch.", ["DataLoader", "IterableDataset"]),
    "learners of arrays": ("import sweephand as sh\nsh.numpy.Ad", ["Adam", "AdamW"]),
}
CALLS: dict[str, tuple[str, list[str]]] = {
    "a source": (
        "import sweephand as sh\nsh.MinibatchSource(",
        [
            "deserializers: SourceData",
            "max_sweeps: int=",
            "randomization_seed: int=0",
            "layout",
        ],
    ),
    "a layout": ("import sweephand as sh\nsh.Packed(", ["row_length: int", "split_long"]),
    "a minibatch": (f"{SOURCE}source.next_minibatch(", ["minibatch_size_in_samples: int"]),
    "a loop": (f"{SOURCE}source.sweep(", ["size: Size"]),
    "open": ("import sweephand as sh\nsh.open(", ["streams", "end_of_document"]),
    "a session": ("import sweephand as sh\nsh.training_session(", ["mb_source", "mb_size"]),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What jedi says of all scripts, in a process that knows of no editable install."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "sweephand").symlink_to(PACKAGE)
    found = [find_spec(name) for name in ("jedi", "parso")]
    if None in found:
        pytest.skip("jedi is not installed")
    homes = [str(Path(str(one and one.origin)).parents[1]) for one in found]
    paths = [str(folder), *homes, str(Path(np.__file__).parents[1])]
    scripts = [code for code, _ in (*WANTED.values(), *CALLS.values())]
    command = [sys.executable, "-S", Path(__file__).with_name("completer.py"), folder, *paths]
    run = subprocess.run(
        list(map(str, command)), input=json.dumps(scripts), capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return dict(zip(scripts, json.loads(run.stdout), strict=True))


@pytest.mark.parametrize("what", WANTED)
def test_names_are_completed(what: str, answers: dict[str, Any]) -> None:
    code, wanted = WANTED[what]
    names = answers[code]["names"]
    assert set(wanted) <= set(names)
    assert names  # and none of them is of another library
    assert "import_module" not in names


@pytest.mark.parametrize("what", CALLS)
def test_arguments_are_shown(what: str, answers: dict[str, Any]) -> None:
    code, wanted = CALLS[what]
    (signature,) = answers[code]["signatures"]
    for words in wanted:
        assert words in signature


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
