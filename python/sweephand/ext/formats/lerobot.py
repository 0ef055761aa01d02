"""LeRobot data sets, version 3: an episode is a sequence, and its videos parts of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sweephand import DataError, ParquetDeserializer, StaleError, StreamDef, StreamDefs
from sweephand.ext.formats.lerobot_episodes import Episodes, LeRobotInfo, read_info
from sweephand.extend import (
    Advance,
    AnyPath,
    ColumnData,
    Columns,
    Facts,
    FileList,
    Index,
    IndexedDeserializer,
    Keep,
    OptionalModule,
    PathLike,
    SampleType,
    SourceFile,
    StreamsLike,
    UnitScan,
    check_first_rows,
    check_units,
    column_of_bytes,
    is_url,
    not_found,
    object_text,
    objects_column,
    offsets_of,
    read_schema,
    require,
    spec_of,
    stat_file,
    streams_of,
)

pq = OptionalModule("pyarrow.parquet", extra="parquet")

_TASK = "task"
_EPISODE = "episode_index"
_LISTS = ("list<", "large_list<")


class LeRobotDeserializer(IndexedDeserializer):
    """Serve the episodes of a LeRobot data set (version 3), each a sequence of frames.

    The columns of its rows, such as ``action``, are streams with a sample for each frame. A
    camera is a stream of one object a sequence, the part of a file that has its frames, which
    `sweephand.decode.video` makes clips of; no video is opened before. ``task`` is the text of
    the episode's task, if every episode has one. Ids are ``episode_000000``, ``episode_000001``
    and so on, by the numbers of episodes.

    Parameters
    ----------
    folder : path
        With ``meta/info.json``, on this machine.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all columns that can be served, all cameras, and the task.
    index : {"auto", "cache", None}
        Place of the index: beside the files, or in a cache folder if that is not writable; only
        in the cache folder; nowhere, so that it is built again each time.

    Attributes
    ----------
    fps : float
        Frames a second.
    cameras : list of str
        The streams that are videos.

    Raises
    ------
    FileNotFoundError
        If the folder or a file of rows is absent.
    ImportError
        If pyarrow is not installed.
    ValueError
        If the data set is of another version, or in a store.
    DataError
        If a file of ``meta`` is damaged. When it is opened: if rows and episodes disagree; else
        as in `ParquetDeserializer`.

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.LeRobotDeserializer("pusht")  # doctest: +SKIP
    >>> clip = sh.decode.video("observation.image", frames=8, beside=["action"])
    >>> source = sh.MinibatchSource(corpus.map(clip))  # doctest: +SKIP
    """

    format = "lerobot 1"
    decoder = pq

    def __init__(
        self, folder: PathLike, streams: StreamsLike | None = None, *, index: Keep = "auto"
    ) -> None:
        pq()  # says what to install
        spec = spec_of(folder)
        if is_url(spec):
            raise ValueError(f"{spec!r}: LeRobot data sets are read from a folder, not a store")
        root = Path(spec)
        if not root.is_dir():
            raise not_found(root)
        self._info = LeRobotInfo.of(root)
        self._episodes = Episodes.of(self._info)
        self.fps = self._info.fps
        self.cameras = self._info.cameras
        self.options = {"episodes": self._episodes.digest}
        super().__init__(self._list_files(), streams, index=index, ids=self._episodes.names)
        self.definitions = self._with_shapes(self.definitions)
        own = {name: one for name, one in self.definitions.items() if self._is_row(name)}
        hidden = _EPISODE
        while hidden in own:
            hidden = f"_{hidden}"
        self._row_streams = list(own)
        self._rows = ParquetDeserializer(
            FileList(self.files, []),
            StreamDefs({**own, hidden: StreamDef(field=_EPISODE)}),
            index=index,
        )

    def _list_files(self) -> FileList:
        """Return the files of rows, and set the `_spans` of their episodes."""
        files: list[SourceFile] = []
        self._spans: dict[str, tuple[int, int]] = {}
        for (chunk, number), span in self._episodes.starts.items():
            path = self._info.data_file(chunk, number)
            file = stat_file(str(path))
            files.append(replace(file, name=f"chunk-{chunk:03d}/file-{number:03d}"))
            self._spans[file.path] = span
        return FileList(files, [])

    def _is_row(self, name: str) -> bool:
        field = self.fields[name]
        return field not in self.cameras and (field != _TASK or _TASK in self._info.features)

    def guess_streams(self) -> StreamDefs:
        """Return columns, cameras, and the task."""
        file = self.first_file
        rows, self.left_out = streams_of(read_schema(pq.read_schema, file), file.path)
        names = [*rows, *self.cameras]
        if self._episodes.has_task_each and _TASK not in rows:
            names.append(_TASK)
        return StreamDefs({name: StreamDef() for name in names})

    def _with_shapes(self, streams: StreamDefs) -> StreamDefs:
        """Return the streams with the shapes that lists of the columns have."""
        schema = read_schema(pq.read_schema, self.first_file)
        found = {}
        for name, one in streams.items():
            field = self.fields[name]
            shape = self._info.features.get(field, {}).get("shape")
            kind = str(schema.field(field).type) if field in schema.names else ""
            are_lists = kind.startswith(_LISTS)
            if one.shape is None and are_lists and isinstance(shape, list):
                one = replace(one, shape=tuple(shape))
            found[name] = one
        return StreamDefs(found)

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Find the runs of row groups that hold whole episodes."""
        rows = self._rows.scan_units(file, advance)
        begin, end = self._spans[file.path]
        episodes = offsets_of(self._episodes.lengths[begin:end])
        groups = offsets_of(rows.rows)
        if groups[-1] != episodes[-1]:
            raise DataError(
                f"it has {groups[-1]} rows, its episodes have {episodes[-1]}", file.path
            )
        borders = np.intersect1d(groups, episodes)
        of_group = np.searchsorted(groups, borders)
        of_episode = np.searchsorted(episodes, borders)
        group_bytes = offsets_of(rows.num_bytes)
        scan = UnitScan(errors=rows.errors)
        scan.kinds = self._kinds(rows.kinds, file)
        scan.rows = np.diff(of_episode).tolist()
        scan.num_bytes = np.diff(group_bytes[of_group]).tolist()
        places = [of_group[:-1], of_group[1:], of_episode[:-1], of_episode[1:]]
        scan.facts = {"units": np.stack(places, 1).tolist()}
        damaged = np.searchsorted(episodes, rows.damaged_rows, side="right") - 1
        scan.damaged_rows = np.unique(damaged).tolist()
        for name, kind in scan.kinds.items():
            if kind.is_ragged:
                scan.lengths[name] = [self._episodes.lengths[begin:end]]
        return scan

    def _kinds(self, rows: Mapping[str, SampleType], file: SourceFile) -> dict[str, SampleType]:
        found = {}
        for name in self.definitions:
            if name not in self._row_streams:
                is_task = self.fields[name] == _TASK
                found[name] = SampleType("bytes" if is_task else "objects")
            elif name in rows:
                if rows[name].is_ragged:
                    raise DataError(
                        f"the column {self.fields[name]!r} has lists of any length, and "
                        "meta/info.json no shape of it: leave it out, or give a shape",
                        file.path,
                        stream=name,
                    )
                found[name] = replace(rows[name], is_ragged=True)
        return found

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Read row groups as episodes."""
        units = facts["units"]
        groups = units[begin][0], units[end - 1][1]
        (*own, numbers), wrong_rows = self._rows.read_units(file, {}, *groups)
        first, stop = (
            self._spans[file.path][0] + at for at in (units[begin][2], units[end - 1][3])
        )
        lengths = self._episodes.lengths[first:stop]
        offsets = offsets_of(lengths)
        if numbers.num_sequences != offsets[-1]:
            raise StaleError(
                f"{numbers.num_sequences} rows are there for {offsets[-1]} frames", file.path
            )
        wrong = {
            int(np.searchsorted(offsets, row, side="right")) - 1: error
            for row, error in reversed(wrong_rows.items())
        }
        wanted = np.repeat(self._episodes.numbers[first:stop], lengths)
        for row in np.flatnonzero(numbers.values != wanted).tolist():
            episode = int(np.searchsorted(offsets, row, side="right")) - 1
            reason = (
                f"a row of episode {wanted[row]} says that it is of another: meta/episodes is "
                "not of these rows"
            )
            name = self._episodes.names[first + episode]
            wrong.setdefault(episode, DataError(reason, file.path, sequence=name))
        by_name = {
            name: replace(column, sample_offsets=offsets)
            for name, column in zip(self._row_streams, own, strict=True)
        }
        return [
            by_name[name] if name in by_name else self._once(name, range(first, stop))
            for name in self.definitions
        ], wrong

    def _once(self, name: str, episodes: Sequence[int]) -> ColumnData:
        """Return a stream that has one sample in every episode."""
        field = self.fields[name]
        if field != _TASK:
            return objects_column(
                [object_text(self._episodes.video(field, one)) for one in episodes]
            )
        return column_of_bytes([self._episodes.tasks[one][0].encode() for one in episodes])

    def check_facts(self, index: Index) -> None:
        """Refuse units that are not consecutive runs of row groups and of episodes."""
        units, _ = check_units(index, 4)
        require(np.array_equal(units[:, 3] - units[:, 2], index.arrays["rows"]), "units")
        check_first_rows(index, units[:, 2])


def is_lerobot(path: AnyPath) -> bool:
    """Return True if a folder is a data set of LeRobot, of whatever version."""
    info = path / "meta" / "info.json"
    if not isinstance(info, Path) or not info.is_file():
        return False
    try:
        return "codebase_version" in read_info(info)
    except DataError:
        return False
