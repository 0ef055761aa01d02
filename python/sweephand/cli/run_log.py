"""Records of a `JSONLProgressWriter`, as curves over steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.errors import DataError
from sweephand.run.strict_json import of_json


@dataclass(frozen=True)
class Curve:
    """A value over training steps.

    Attributes
    ----------
    steps : ndarray of int64, shape (points,)
        Ascending.
    values : ndarray of float64, shape (points,)
    """

    steps: NDArray[np.int64]
    values: NDArray[np.float64]


def log_at(path: Path) -> Path:
    """Return the log of a run: a file, or the only one in a folder.

    FileNotFoundError if there is none; ValueError if there are several.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.jsonl"))
    if not found:
        raise FileNotFoundError(
            f"there is no log in {str(path)!r}; sh.JSONLProgressWriter writes one, *.jsonl"
        )
    if len(found) > 1:
        names = ", ".join(one.name for one in found[:5])
        raise ValueError(f"there are several logs in {str(path)!r}; name one of: {names}")
    return found[0]


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the records of a log.

    After a kill a run repeats the records after its checkpoint: of two the earlier is left out,
    and a last line that is not whole yet. DataError if a line is no record.
    """
    lines = path.read_bytes().split(b"\n")
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = _checked(of_json(json.loads(line)))
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # it is being written
                break
            raise DataError(f"no record of progress: {error}", str(path), line=number) from None
        if record["kind"] == "training":
            records = [one for one in records if _is_before(one, record)]
        records.append(record)
    if not records:
        raise ValueError(f"{str(path)!r} has no record of progress")
    return records


def _is_before(one: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Return True if the averages of a record begin after another record."""
    begin = record["step"] - record.get("num_steps", 1)
    return bool(one["step"] <= begin or one["kind"] != "training")


def _checked(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise ValueError("it has no kind")
    for name in ("step", "samples"):
        if type(record.get(name)) is not int:
            raise ValueError(f"it has no {name}")
    return record


def curves_of(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Curve]]:
    """Return the panels of a run, each with its logged curves by name."""
    points: dict[str, dict[str, dict[int, float]]] = {
        "loss": {}, "learning rate": {}, "loss scale": {}, "minibatch size": {},
    }  # fmt: skip

    records = list(records)
    has_training = any(record["kind"] == "training" for record in records)

    def add(panel: str, name: str, step: int, value: Any) -> None:
        if isinstance(value, int | float):
            points[panel].setdefault(name, {})[step] = float(value)

    for record in records:
        kind, step = record["kind"], record["step"]
        if kind in ("training", "summary", "validation", "test"):
            add("loss", kind, step, record.get("loss"))
        if kind == "training" or (kind == "summary" and not has_training):
            steps = record.get("num_steps", 0) - record.get("num_skipped", 0)
            if steps > 0:
                add("minibatch size", "mean", step, record.get("num_samples", 0) / steps)
        if kind == "change":
            for name, value in record.items():
                for panel in ("learning rate", "loss scale"):
                    if name.partition("[")[0] == panel.replace(" ", "_"):
                        add(panel, name, step, value)
    if has_training:
        points["loss"].pop("summary", None)
    return {
        panel: {name: _curve(found) for name, found in curves.items()}
        for panel, curves in points.items()
        if curves
    }


def _curve(points: Mapping[int, float]) -> Curve:
    steps = sorted(points)
    return Curve(np.array(steps, np.int64), np.array([points[step] for step in steps]))


def held(curve: Curve, last: int) -> Curve:
    """Return the curve of a value that stays until it changes, up to a last step."""
    return Curve(np.append(curve.steps, last), np.append(curve.values, curve.values[-1:]))


def in_columns(curve: Curve, last: int, columns: int, *, is_held: bool) -> NDArray[np.float64]:
    """Return the value in each of `columns` equal parts of the steps; NaN where there is none.

    Parameters
    ----------
    is_held : bool
        The value stays until it changes; else values in one part are averaged.
    """
    first = 1
    edges = np.linspace(first, last + 1, columns + 1)
    if is_held:
        at = np.searchsorted(curve.steps, edges[1:] - 1e-9, side="right") - 1
        found = curve.values[np.maximum(at, 0)]
        found[at < 0] = np.nan
        return found
    part = np.clip(np.searchsorted(edges, curve.steps, side="right") - 1, 0, columns - 1)
    found = np.full(columns, np.nan)
    is_finite = np.isfinite(curve.values)
    counts = np.bincount(part[is_finite], minlength=columns)
    sums = np.bincount(part[is_finite], curve.values[is_finite], minlength=columns)
    np.divide(sums, counts, out=found, where=counts > 0)
    return found
