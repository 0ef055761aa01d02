"""Opens prepared folders as TFDS does.

The default version of a data set is chosen as TFDS does:

::

    mnist/3.0.1/dataset_info.json                      NAME / VERSION
    wikipedia/20230601.en/1.0.0/dataset_info.json      NAME / CONFIG / VERSION
    wikipedia/.config/metadata.json                    says which CONFIG is the default
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import overload

import numpy as np

from sweephand import StreamDef, StreamDefs
from sweephand.ext.tfds.builder_info import BuilderInfo, builder_info
from sweephand.ext.tfds.dataset import Dataset
from sweephand.ext.tfds.features import Feature, json_errors, member, read_features, read_json
from sweephand.ext.tfds.read_config import ReadConfig
from sweephand.ext.tfds.read_order import ReadOrder
from sweephand.ext.tfds.splits import Split, SplitLike
from sweephand.extend import (
    AnyPath,
    Keep,
    Look,
    StreamsLike,
    Wanted,
    check_keep,
    choose_streams,
    folders_at,
    stream_per_name,
)

_INFO = "dataset_info.json"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_ID_STREAM = "tfds_id"

DataDir = str | PathLike[str] | Sequence[str | PathLike[str]]
SplitTree = SplitLike | Sequence["SplitTree"] | Mapping[str, "SplitTree"]
DatasetTree = Dataset | list["DatasetTree"] | dict[str, "DatasetTree"]


def is_dataset(look: Look) -> bool:
    """Return True if a path is the folder of a version, or holds such folders."""
    path = look.path
    if _INFO in look.names:
        return True
    return look.is_dir and bool(_versions_in(path) or _configs_in(path))


def newest_version(folder: AnyPath) -> AnyPath:
    """Return the folder of a version: the folder itself, or the newest in it."""
    if (folder / _INFO).exists():
        return folder
    versions = _versions_in(folder)
    if not versions:
        folder = _default_config(folder)
        versions = _versions_in(folder)
    *others, newest = versions
    if others:
        names = ", ".join(one.name for one in versions)
        warnings.warn(
            f"{str(folder)!r} holds the versions {names}: {newest.name} is read; name the "
            "folder of another one to have that",
            stacklevel=4,
        )
    return newest


def _versions_in(path: AnyPath) -> list[AnyPath]:
    """Return the folders of versions, the newest last."""
    found = [
        (tuple(map(int, match.groups())), one)
        for one in folders_at(path)
        if (match := _VERSION.fullmatch(one.name)) and (one / _INFO).exists()
    ]
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _configs_in(path: AnyPath) -> list[AnyPath]:
    # TFDS writes this file beside the versions; without it each folder would have to be listed.
    if not (path / ".config").exists():
        return []
    return [one for one in folders_at(path) if _versions_in(one)]


def _default_config(folder: AnyPath) -> AnyPath:
    configs = _configs_in(folder)
    if len(configs) == 1:
        return configs[0]
    file = folder / ".config" / "metadata.json"
    if file.exists():
        with json_errors(file):
            name = member(read_json(file), "default_config_name", str)
        for one in configs:
            if one.name == name:
                return one
    names = ", ".join(one.name for one in configs)
    raise ValueError(
        f"{str(folder)!r} holds the configurations {names}: name the folder of one, such as "
        f"{str(configs[0])!r}"
    )


def _features_of(info: BuilderInfo) -> dict[str, Feature]:
    """Return the streams by ``features.json``; none without one of today's form."""
    if info.features is None or "content" in info.features:  # of before 2021
        return {}
    with json_errors(info.data_dirs[0] / "features.json"):
        return read_features(info.features)


def _define(
    info: BuilderInfo, streams: StreamsLike | None
) -> tuple[StreamDefs, dict[str, Feature]]:
    """Return the wanted streams with their dtypes, and the feature of each."""
    known = _features_of(info)
    if streams is None and not known:
        raise ValueError(
            f"{info.data_dirs[0]} has no features.json of today's form; declare the streams"
        )
    wanted = choose_streams(streams, partial(stream_per_name, known))
    features = {name: _feature_of(known, name, one) for name, one in wanted.items()}
    definitions = {}
    for name, one in wanted.items():
        dtype = one.dtype
        if dtype is None and features[name].dtype != object:
            dtype = features[name].dtype
        definitions[name] = replace(one, dtype=dtype)
    return StreamDefs(definitions), features


def _feature_of(known: Mapping[str, Feature], name: str, definition: StreamDef) -> Feature:
    field = definition.field or name
    if definition.defines_mb_size:
        raise ValueError(f"every example is one sample: stream {name!r} cannot define the size")
    if not known:
        dtype = np.dtype(definition.dtype or object)
        shape = definition.sample_shape
        return Feature(field, dtype, shape or (), is_ragged=shape is None)
    if field not in known:
        raise ValueError(f"no feature {field!r}, there are: {', '.join(known)}")
    if known[field].refusal:
        raise ValueError(f"{known[field].refusal}; declare the other streams")
    return known[field]


def _map(split: SplitTree, select: Callable[[SplitLike], Dataset]) -> DatasetTree:
    if isinstance(split, str | Split):
        return select(split)
    if isinstance(split, Mapping):
        return {name: _map(one, select) for name, one in split.items()}
    return [_map(one, select) for one in split]


@overload
def load(
    data_dir: DataDir,
    split: SplitLike,
    shuffle_files: bool = False,
    read_config: ReadConfig | None = None,
    *,
    streams: StreamsLike | None = None,
    index: Keep = "auto",
) -> Dataset: ...


@overload
def load(
    data_dir: DataDir,
    split: SplitTree | None = None,
    shuffle_files: bool = False,
    read_config: ReadConfig | None = None,
    *,
    streams: StreamsLike | None = None,
    index: Keep = "auto",
) -> DatasetTree: ...


def load(
    data_dir: DataDir,
    split: SplitTree | None = None,
    shuffle_files: bool = False,
    read_config: ReadConfig | None = None,
    *,
    streams: StreamsLike | None = None,
    index: Keep = "auto",
) -> DatasetTree:
    """Select examples of a prepared folder.

    Parameters
    ----------
    data_dir : path or URL, or sequence of them
        A version folder, such as ``mnist/3.0.1``, or several of one data set.
    split : str, Split, or nested lists and dicts of them
        Such as ``"train[:75%]+test"``. None: a dict of all splits.
    shuffle_files : bool
        Shuffle the files, again in every pass.
    read_config : ReadConfig, optional
        Further options of the order.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        The wanted streams, with the names of features as fields; all by default. For a folder
        without ``features.json``, or with one of before 2021, it defines the features: numbers
        by their ``dtype``, bytes without one; a sample of the given ``shape``, or any number of
        values without one.
    index : {"auto", "cache", None}
        The place of the index of records: in the folder, or in a cache folder if that cannot be
        written; only in the cache folder; nowhere, so that it is made again each time.

    Returns
    -------
    Dataset, or lists and dicts of them as `split` is

    Raises
    ------
    FileNotFoundError
        If a folder has no ``dataset_info.json``.
    DataError
        If a JSON file is damaged, with its name.
    ValueError
        If a split, option, stream or format of files is not supported.

    Examples
    --------
    >>> import sweephand as sh
    >>> dataset = sh.tfds.load("mnist/3.0.1", "train[:75%]")
    >>> len(dataset), dataset.ids(0, 2)
    (8, ['mnist-train.tfrecord-00000-of-00002__0', 'mnist-train.tfrecord-00000-of-00002__1'])
    >>> source = sh.MinibatchSource(dataset, randomize=False, max_sweeps=1)  # TFDS' own order
    >>> source.next_minibatch(4)["label"].values
    array([0, 1, 2, 3])
    """
    info = builder_info(data_dir)
    if info.file_format != "tfrecord":
        raise ValueError(
            f"{info.data_dirs[0]} holds {info.file_format} files, of which TFDS has no order: "
            "what is read is tfrecord, and sh.ArrayRecordDeserializer reads array_record"
        )
    config = read_config or ReadConfig()
    keep = check_keep(index)
    definitions, features = _define(info, streams)
    if config.add_tfds_id:
        definitions = StreamDefs(**definitions, **{_ID_STREAM: StreamDef()})

    def select(one: SplitLike) -> Dataset:
        selected = info.splits[one].file_instructions
        if not selected:
            raise ValueError(f"the split {str(one)!r} selects no examples")
        order = ReadOrder(
            selected, config, shuffle_files=shuffle_files, is_ordered=info.is_ordered
        )
        names = dict.fromkeys(part.split for part in info.splits.resolve(one))
        return Dataset(
            info,
            order,
            list(names),
            features,
            definitions,
            add_tfds_id=config.add_tfds_id,
            keep=keep,
        )

    every = {name: name for name in info.splits}
    return _map(every if split is None else split, select)


def open_folders(folders: Sequence[AnyPath], wanted: Wanted) -> Dataset:
    """Return the corpus of prepared folders, the newest version of each."""
    if wanted.chunk_size is not None:
        raise ValueError("every example of a TFDS folder is one sample, read by itself")
    versions = [newest_version(folder) for folder in folders]
    return load(versions, "all", streams=wanted.streams, index=wanted.index)
