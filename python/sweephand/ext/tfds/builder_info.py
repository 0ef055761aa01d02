"""Contents of the JSON files of a prepared TFDS folder."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sweephand.ext.tfds.features import Node, integers, json_errors, member, objects, read_json
from sweephand.ext.tfds.splits import Interval, SplitLike, as_split
from sweephand.extend import AnyPath, as_path

_DEFAULT_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


@dataclass(frozen=True)
class FileInstruction:
    """A run of examples in one file.

    Attributes
    ----------
    filename : str
    skip : int
        Examples before the run.
    take : int
        Examples of the run.
    examples_in_shard : int
        All examples of the file.

    Examples
    --------
    >>> import sweephand as sh
    >>> info = sh.tfds.builder_info("mnist/3.0.1")
    >>> part = info.splits["test[2:]"].file_instructions[0]
    >>> part.skip, part.take, part.examples_in_shard
    (2, 3, 5)
    """

    filename: str
    skip: int
    take: int
    examples_in_shard: int


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
    >>> split.num_examples, split.shard_lengths
    (7, (5, 2))
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


@dataclass(frozen=True)
class StoredSplit:
    """The files of a split, and the number of examples in each."""

    files: tuple[AnyPath, ...] = ()
    shard_lengths: tuple[int, ...] = ()

    def runs(self, part: Interval) -> Iterator[FileInstruction]:
        """Yield the runs that make up a part of the split."""
        start = 0
        for file, length in zip(self.files, self.shard_lengths, strict=True):
            skip = max(part.begin - start, 0)
            take = min(part.end - start, length) - skip
            if take > 0:
                yield FileInstruction(fspath(file), skip, take, length)
            start += length


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
        self.stored = stored

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def __contains__(self, name: object) -> bool:
        return name in self.stored

    def __getitem__(self, split: SplitLike) -> SplitInfo:
        """Return the shards and examples that a split expression selects.

        Raises
        ------
        ValueError
            If the expression is wrong, or names a split that is not there.
        """
        parts = self.resolve(split)
        rows = [row for part in parts for row in self.stored[part.split].runs(part)]
        return SplitInfo(str(split), tuple(rows))

    def resolve(self, split: SplitLike) -> list[Interval]:
        """Return the examples of every part of a split expression, in storage order."""
        lengths = {name: stored.shard_lengths for name, stored in self.stored.items()}
        return as_split(split).resolve(lengths)


@dataclass(frozen=True)
class BuilderInfo:
    """Information on a prepared folder, or on several of one data set.

    Attributes
    ----------
    name, version : str
    file_format : str
        Such as ``"tfrecord"``.
    is_ordered : bool
        True if the examples were stored in the order of their generation.
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
    version: str
    file_format: str
    is_ordered: bool
    features: Mapping[str, Any] | None
    data_dirs: tuple[AnyPath, ...]
    splits: Splits = field(repr=False)


def _file_names(
    template: str, dataset: str, split: str, form: str, num_shards: int
) -> Iterator[str]:
    """Yield the names of all shards of a split."""
    width = max(5, len(str(num_shards)))
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
        yield name


def _read_split(
    folder: AnyPath, there: Mapping[str, AnyPath], split: Node, dataset: str, form: str
) -> StoredSplit:
    name = member(split, "name", str)
    template = member(split, "filepathTemplate", str) or _DEFAULT_TEMPLATE
    lengths = integers(split, "shardLengths")
    names = list(_file_names(template, dataset, name, form, len(lengths)))
    outside = [one for one in names if Path(one).name != one or one in ("", ".", "..")]
    if outside or len(set(names)) < len(names):
        raise ValueError(
            f"the file names of split {name!r} must differ and stay in the folder, but its "
            f"template is {template!r}"
        )
    return StoredSplit(tuple(there.get(one, folder / one) for one in names), lengths)


def _read_folder(folder: AnyPath) -> BuilderInfo:
    file = folder / "dataset_info.json"
    info = read_json(file)
    # The text after a "%" in the name of a file is its encoding.
    there = {path.name.partition("%")[0]: path for path in folder.iterdir()}
    tree = folder / "features.json"
    with json_errors(file):
        name = member(info, "name", str)
        form = member(info, "fileFormat", str) or "tfrecord"
        described = objects(info, "splits")
        splits = {
            member(one, "name", str): _read_split(folder, there, one, name, form)
            for one in described
        }
        if len(splits) < len(described):
            raise ValueError("a split is there twice")
        return BuilderInfo(
            name=name,
            version=member(info, "version", str),
            file_format=form,
            is_ordered=member(info, "disableShuffling", bool),
            features=read_json(tree) if tree.exists() else None,
            data_dirs=(folder,),
            splits=Splits(splits),
        )


def _join(infos: Sequence[BuilderInfo]) -> BuilderInfo:
    """Join the shards of all folders, split by split."""
    first = infos[0]
    stored: dict[str, StoredSplit] = {}
    for info in infos:
        for name in ("name", "file_format", "features"):
            if getattr(info, name) != getattr(first, name):
                raise ValueError(
                    f"the folders must hold the same data set, but {name} differs: "
                    f"{first.data_dirs[0]} and {info.data_dirs[0]}"
                )
        for name, split in info.splits.stored.items():
            before = stored.get(name, StoredSplit())
            stored[name] = StoredSplit(
                before.files + split.files, before.shard_lengths + split.shard_lengths
            )
    return replace(
        first,
        is_ordered=any(info.is_ordered for info in infos),
        data_dirs=tuple(info.data_dirs[0] for info in infos),
        splits=Splits(stored),
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
