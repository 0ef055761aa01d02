"""Contents of the JSON files of a prepared TFDS folder."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from sweephand import DataError
from sweephand.ext.tfds.features import JsonFields, read_json
from sweephand.ext.tfds.file_instructions import FileInstruction, make_file_instructions
from sweephand.ext.tfds.splits import Interval, SplitLike, as_split
from sweephand.extend import AnyPath, as_path

_DEFAULT_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


@dataclass(frozen=True)
class SplitInfo:
    """One split, or a selection of several.

    Attributes
    ----------
    name : str
        The split, or the text of the selection.
    file_instructions : tuple of FileInstruction
        The runs to read, in storage order. Files without selected examples have none.

    Examples
    --------
    >>> import sweephand as sh
    >>> split = sh.tfds.builder_info("mnist/3.0.1").splits["train[:7]"]
    >>> split.num_examples, [(part.skip, part.take) for part in split.file_instructions]
    (7, [(0, 5), (0, 2)])
    """

    name: str
    file_instructions: tuple[FileInstruction, ...]

    @property
    def num_examples(self) -> int:
        """The number of selected examples."""
        return sum(self.shard_lengths)

    @property
    def shard_lengths(self) -> tuple[int, ...]:
        """The number of selected examples in every file."""
        return tuple(row.take for row in self.file_instructions)

    @property
    def num_shards(self) -> int:
        """The number of files to read."""
        return len(self.file_instructions)


@dataclass(frozen=True)
class StoredSplit:
    """A split as it is stored."""

    name: str
    files: tuple[AnyPath, ...]
    shard_lengths: tuple[int, ...]  # the number of examples in every file
    num_bytes: int = 0  # the size of all files as the preparer stated it; 0 if it did not

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return sum(self.shard_lengths)


class Splits(Mapping[str, SplitInfo]):
    """The splits of a folder, by name or by any split expression.

    Examples
    --------
    >>> import sweephand as sh
    >>> splits = sh.tfds.builder_info("mnist/3.0.1").splits
    >>> list(splits), splits["train[50%:]+test"].num_examples
    (['train', 'test'], 10)
    """

    def __init__(self, stored: Mapping[str, StoredSplit]) -> None:
        self._stored = dict(stored)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, split: SplitLike) -> SplitInfo:
        """Return the shards and examples that a split expression selects.

        Raises
        ------
        ValueError
            If the expression is wrong, or names a split that is not there.
        """
        parts = self.resolve(split)
        rows = [
            row
            for part in parts
            for row in make_file_instructions(
                self._stored[part.split].files,
                self._stored[part.split].shard_lengths,
                part.begin,
                part.end,
            )
        ]
        return SplitInfo(str(split), tuple(rows))

    def __contains__(self, name: object) -> bool:
        return name in self._stored

    def resolve(self, split: SplitLike) -> list[Interval]:
        """Return the examples of every part of a split expression, in storage order."""
        lengths = {name: stored.shard_lengths for name, stored in self._stored.items()}
        return as_split(split).resolve(lengths)


@dataclass(frozen=True)
class BuilderInfo:
    """Information on a prepared folder, or on several of one data set.

    Attributes
    ----------
    name, config_name, version : str
    file_format : str
        Such as ``"tfrecord"``.
    is_ordered : bool
        True if the examples were stored in the order of their generation.
    supervised_keys : tuple of str, optional
        The features of the input and of the label.
    splits : Splits
    features : dict, optional
        The content of ``features.json``; None if there is none.
    data_dirs : tuple of paths, as `as_path` makes them

    Examples
    --------
    >>> import sweephand as sh
    >>> info = sh.tfds.builder_info("mnist/3.0.1")
    >>> info.name, info.version, info.file_format, list(info.splits)
    ('mnist', '3.0.1', 'tfrecord', ['train', 'test'])
    """

    name: str
    config_name: str
    version: str
    file_format: str
    is_ordered: bool
    supervised_keys: tuple[str, ...] | None
    features: Mapping[str, Any] | None
    data_dirs: tuple[AnyPath, ...]
    stored_splits: Mapping[str, StoredSplit] = field(repr=False)

    @cached_property
    def splits(self) -> Splits:
        """The splits, by name or by split expression."""
        return Splits(self.stored_splits)


def _supervised_keys(fields: JsonFields) -> tuple[str, ...] | None:
    keys = fields.nested("supervisedKeys")
    items = [item.text("featureKey") for item in keys.nested("tuple").nested_list("items")]
    named = [keys.text("input"), keys.text("output")]
    found = items or named
    return tuple(found) if all(found) else None


def _file_names(
    template: str, *, dataset: str, split: str, form: str, num_shards: int
) -> list[str]:
    """Return the names of all shards of a split."""
    width = max(5, len(str(num_shards)))
    names = []
    for shard in range(num_shards):
        values = {
            "DATASET": dataset,
            "SPLIT": split,
            "FILEFORMAT": form,
            "SHARD_INDEX": f"{shard:0{width}}",
            "NUM_SHARDS": f"{num_shards:0{width}}",
            "SHARD_X_OF_Y": f"{shard:0{width}}-of-{num_shards:0{width}}",
        }
        name = template
        for variable, value in values.items():
            name = name.replace(f"{{{variable}}}", value)
        names.append(name)
    return names


def _read_split(
    folder: AnyPath,
    there: Mapping[str, AnyPath],
    fields: JsonFields,
    *,
    dataset: str,
    form: str,
) -> StoredSplit:
    name = fields.text("name")
    template = fields.text("filepathTemplate") or _DEFAULT_TEMPLATE
    lengths = fields.integers("shardLengths")
    names = _file_names(
        template, dataset=dataset, split=name, form=form, num_shards=len(lengths)
    )
    outside = [file for file in names if Path(file).name != file or file in ("", ".", "..")]
    if outside or len(set(names)) < len(names):
        raise DataError(
            f"the file names of split {name!r} must differ and stay in the folder, "
            f"but its template is {template!r}",
            str(folder / "dataset_info.json"),
        )
    files = tuple(there.get(file, folder / file) for file in names)
    return StoredSplit(name, files, lengths, fields.integer("numBytes"))


def _read_folder(folder: AnyPath) -> BuilderInfo:
    file = folder / "dataset_info.json"
    fields = JsonFields(file, read_json(file))
    name = fields.text("name")
    form = fields.text("fileFormat") or "tfrecord"
    # The text after a "%" in the name of a file is its encoding.
    there = {path.name.partition("%")[0]: path for path in folder.iterdir()}
    stored = [
        _read_split(folder, there, split, dataset=name, form=form)
        for split in fields.nested_list("splits")
    ]
    if len({split.name for split in stored}) < len(stored):
        raise DataError("a split is there twice", str(file))
    features = folder / "features.json"
    content = read_json(features) if features.exists() else None
    if content is not None and not isinstance(content, dict):
        raise DataError("expected a JSON object", str(features))
    return BuilderInfo(
        name=name,
        config_name=fields.text("configName"),
        version=fields.text("version"),
        file_format=form,
        is_ordered=fields.flag("disableShuffling"),
        supervised_keys=_supervised_keys(fields),
        features=content,
        data_dirs=(folder,),
        stored_splits={split.name: split for split in stored},
    )


def _join(infos: Sequence[BuilderInfo]) -> BuilderInfo:
    """Join the shards of all folders, split by split."""
    first = infos[0]
    for info in infos[1:]:
        for name in ("name", "file_format", "features"):
            if getattr(info, name) != getattr(first, name):
                raise ValueError(
                    f"the folders must hold the same data set, but {name} differs: "
                    f"{first.data_dirs[0]} and {info.data_dirs[0]}"
                )
    stored: dict[str, StoredSplit] = {}
    for info in infos:
        for name, split in info.stored_splits.items():
            before = stored.get(name, StoredSplit(name, (), ()))
            stored[name] = StoredSplit(
                name,
                before.files + split.files,
                before.shard_lengths + split.shard_lengths,
                before.num_bytes + split.num_bytes,
            )
    return replace(
        first,
        is_ordered=any(info.is_ordered for info in infos),
        data_dirs=tuple(info.data_dirs[0] for info in infos),
        stored_splits=stored,
    )


def builder_info(
    data_dir: str | PathLike[str] | Sequence[str | PathLike[str]],
) -> BuilderInfo:
    """Read the information of a prepared folder. No shard is opened.

    Parameters
    ----------
    data_dir : path or URL, or sequence of them
        A version folder, such as ``mnist/3.0.1``, or several of one data set, whose shards
        follow one another in every split.

    Returns
    -------
    BuilderInfo

    Raises
    ------
    FileNotFoundError
        If a folder has no ``dataset_info.json``.
    DataError
        If a JSON file is damaged, with its name.
    ValueError
        If the folders hold different data sets, or there is none.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.tfds.builder_info("mnist/3.0.1").splits["test"].num_examples
    5
    """
    dirs = [data_dir] if isinstance(data_dir, str | PathLike) else list(data_dir)
    if not dirs:
        raise ValueError("data_dir must name at least one folder")
    return _join([_read_folder(as_path(folder)) for folder in dirs])
