"""Answer of `sweephand forget`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweephand.cli.answers import Answer
from sweephand.errors import StateError
from sweephand.terminal.numbers import in_count, in_percent, in_seconds
from sweephand.terminal.screen import Screen
from sweephand.train.forgetting.forgetting import Forgetting
from sweephand.train.forgetting.saved_moment import SavedMoment
from sweephand.train.trainer.parameter_digest import parameter_digest


def facts_of(found: Forgetting) -> Answer:
    """Return the findings as JSON types."""
    newest = found.newest
    return {
        "num_ids": len(found.first_seen),
        "seen": {name: time for name, time in found.first_seen.items() if time is not None},
        "never_seen": [name for name, time in found.first_seen.items() if time is None],
        "replay_from": None if found.replay_from is None else _moment(found.replay_from),
        "position": found.position,
        "newest": None if newest is None else _moment(newest) | {"parameters": _digest(newest)},
        "minibatches": found.num_minibatches,
        "samples": found.num_samples,
        "share": found.share,
        "seconds": found.seconds,
        "ban": None if found.ban is None else found.ban.to_json(),
        "holding": [str(one.folder) for one in found.holding],
        "unread": {str(folder): why for folder, why in found.unread.items()},
    }


def _moment(moment: SavedMoment) -> dict[str, Any]:
    return {
        "folder": str(moment.folder),
        "position": moment.position,
        "steps": moment.steps,
        "samples": moment.samples,
    }


def _digest(moment: SavedMoment) -> str | None:
    try:
        return parameter_digest(moment.folder)
    except StateError:  # damaged: reported where it is judged
        return None


def show(facts: Answer, num_rows: int, screen: Screen) -> None:
    """Show the findings, and the remaining work."""
    seen, newest, begin = facts["seen"], facts["newest"], facts["replay_from"]
    shown = {"ids": f"{in_count(facts['num_ids'])}, of which {in_count(len(seen))} were seen"}
    if newest is not None:
        shown["the run"] = f"{_place_of(newest)}, at step {in_count(newest['steps'])}"
        shown["parameters"] = f"SHA-256 {newest['parameters']}"
    shown["replay from"] = "the beginning"
    if begin is not None:
        shown["replay from"] = f"{_place_of(begin)}, at step {in_count(begin['steps'])}"
    shown["nominal time"] = in_count(facts["position"])
    shown["it costs"] = _cost(facts)
    screen.facts(shown)
    if seen:
        _show_seen(facts, num_rows, screen)
    screen.heading("What to do")
    screen.lines(_advice(facts))


def _place_of(moment: dict[str, Any]) -> str:
    return Path(moment["folder"]).name


def _cost(facts: Answer) -> str:
    if not facts["minibatches"]:
        return "nothing: the newest checkpoint that fits has seen none of them"
    steps = (
        f"{in_count(facts['minibatches'])} minibatches, {in_count(facts['samples'])} samples, "
        f"{in_percent(facts['share'])} of the run"
    )
    seconds = facts["seconds"]
    return steps if seconds is None else f"{steps}, {in_seconds(seconds)} the first time"


def _show_seen(facts: Answer, num_rows: int, screen: Screen) -> None:
    screen.heading("First seen")
    rows = sorted(facts["seen"].items(), key=lambda row: row[1])
    screen.table(
        ["id", "nominal time"], [(name, in_count(time)) for name, time in rows[:num_rows]]
    )
    if len(rows) > num_rows:
        screen.text(f"... and {len(rows) - num_rows} more: --rows shows them")


def _advice(facts: Answer) -> list[str]:
    """Return advice on the remaining work, and the limits of a ban."""
    advice = [f"{folder} cannot be judged: {why}" for folder, why in facts["unread"].items()]
    if facts["written"] is not None and not facts["minibatches"]:
        advice.append(f"Nothing is to be trained again; {facts['written']} has the ban.")
    elif facts["written"] is not None:
        advice.append(
            f"{facts['written']} has the ban: run the training again with its source "
            f"events={facts['written']!r}; the session finds its checkpoint."
        )
    elif facts["ban"] is not None:
        advice.append(
            "--write events.json writes the ban, for MinibatchSource(..., events=...)."
        )
    else:
        advice.append("The events leave all of them out: there is nothing to write.")
    if facts["deleted"]:
        advice.append(
            f"{in_count(len(facts['deleted']))} checkpoints that held them are deleted."
        )
    elif facts["holding"]:
        names = [Path(one).name for one in facts["holding"]]
        advice.append(
            f"{in_count(len(names))} checkpoints hold them, {names[0]} to {names[-1]}: "
            "--delete deletes them."
        )
    advice.append("Logs, ledgers, caches and copies of checkpoints are yours to look through.")
    return advice
