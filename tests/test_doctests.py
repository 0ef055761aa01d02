"""The examples in the documentation of the installed package run, and say what they do."""

import doctest
import functools
import importlib
import inspect
import json
import pkgutil
from pathlib import Path

import pytest

import sweephand as sh
from sweephand import errors
from sweephand.base.public_names import importable_names

# Modules that need an optional package, by the name under which it is imported.
OPTIONAL = {
    "torch",
    "torchdata",
    "scipy",
    "pyarrow",
    "matplotlib",
    "ml_dtypes",
    "fsspec",
    "PIL",
    "soundfile",
    "av",
}

MODULES = ["sweephand"] + [
    found.name
    for found in pkgutil.walk_packages(sh.__path__, "sweephand.")
    if found.name not in {"sweephand.__main__", "sweephand._core"}
]


PUBLIC = ["sweephand"] + [
    f"sweephand.{name}"
    for name in (
        *("decode", "images", "mxnet", "numpy", "ray", "tfds", "tfrecord", "torchft", "train"),
        *(
            "torch",
            "torch.distributed",
            "torch.megatron",
            "torch.torchtitan",
            "torch.transformers",
        ),
    )
]


def prepare_mnist() -> None:
    """Write the folder of TFDS that examples read: two shards of five examples, and one."""
    folder = Path("mnist/3.0.1")
    folder.mkdir(parents=True)
    splits = {"train": 2, "test": 1}
    for split, shards in splits.items():
        for shard in range(shards):
            name = f"mnist-{split}.tfrecord-{shard:05}-of-{shards:05}"
            sh.tfrecord.write(folder / name, [{"label": 5 * shard + n} for n in range(5)])
    lengths = [{"name": name, "shardLengths": ["5"] * n} for name, n in splits.items()]
    info = {"name": "mnist", "version": "3.0.1", "splits": lengths}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    features = {"label": {"classLabel": {"numClasses": "10"}}}
    features_json = {"featuresDict": {"features": features}}
    (folder / "features.json").write_text(json.dumps(features_json))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    if name.startswith("sweephand.ext.tfds"):
        prepare_mnist()
    assert doctest.testmod(module).failed == 0


def test_the_examples_are_found() -> None:
    assert any(found.examples for found in doctest.DocTestFinder().find(errors))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_class_and_function_has_an_example(name: str) -> None:
    if name.startswith("sweephand.torch"):
        pytest.importorskip("torch")
    module = functools.reduce(getattr, name.split(".")[1:], sh)
    shown = {public: getattr(module, public) for public in importable_names(module)}
    assert not [
        public
        for public, thing in shown.items()
        if (inspect.isclass(thing) or inspect.isroutine(thing))
        and ">>> " not in (thing.__doc__ or "")
    ]


@pytest.mark.parametrize("name", PUBLIC)
def test_methods_of_public_classes_are_documented_there_or_where_they_are_inherited_from(
    name: str,
) -> None:
    if name.startswith("sweephand.torch"):
        pytest.importorskip("torch")
    module = functools.reduce(getattr, name.split(".")[1:], sh)
    classes = (getattr(module, public) for public in importable_names(module))
    assert not [
        f"{one.__name__}.{method}"
        for one in filter(inspect.isclass, classes)
        for method, found in vars(one).items()
        if not method.startswith("_")
        and (callable(found) or isinstance(found, property))
        and not inspect.getdoc(getattr(one, method))
    ]
