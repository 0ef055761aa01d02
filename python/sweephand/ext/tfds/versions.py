"""The default version of a data set, chosen as TFDS does.

::

    mnist/3.0.1/dataset_info.json                      NAME / VERSION
    wikipedia/20230601.en/1.0.0/dataset_info.json      NAME / CONFIG / VERSION
    wikipedia/.config/metadata.json                    says which CONFIG is the default
"""

from __future__ import annotations

import json
import re
import warnings

from sweephand.extend import AnyPath, folders_at, read_file

_INFO = "dataset_info.json"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def is_dataset(path: AnyPath) -> bool:
    """Return True if a path is the folder of a version, or holds such folders."""
    if (path / _INFO).exists():
        return True
    return path.is_dir() and bool(_versions_in(path) or _configs_in(path))


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
    metadata = folder / ".config" / "metadata.json"
    if metadata.exists():
        name = json.loads(read_file(metadata)).get("default_config_name")
        for one in configs:
            if one.name == name:
                return one
    names = ", ".join(one.name for one in configs)
    raise ValueError(
        f"{str(folder)!r} holds the configurations {names}: name the folder of one, such as "
        f"{str(configs[0])!r}"
    )
