"""The two rings of the package: what a room imports lies further in."""

import sys
from math import cos, pi, sin
from pathlib import Path

import matplotlib.pyplot as plt
from drawing import color
from matplotlib.axes import Axes
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.imports import imports, module_of, modules

# The places of the core's rooms on the dial, in parts of a turn; their radius is their depth.
ANGLES = {
    "base": 0.0,
    "run": 0.66,
    "files": 0.83,
    "events": 0.5,
    "corpus": 0.96,
    "layouts": 0.85,
    "minibatch": 0.76,
    "maps": 0.92,
    "deserializers": 0.03,
    "mixtures": 0.12,
    "source": 0.36,
    "lengths": 0.29,
    "loans": 0.64,
    "train": 0.45,
    "torch": 0.54,
    "cli": 0.21,
}
EDGE, OUTSIDE = 6.3, 8.0


def draw() -> Figure:
    """Draw the rooms of the core, those of the extensions, and the imports between them."""
    sees = {room: seen & ANGLES.keys() - {room} for room, seen in rooms().items()}
    core = {room: sees[room] | ({"base"} - {room}) for room in ANGLES if room in sees}
    figure, axis = plt.subplots(figsize=(8, 8), layout="constrained")
    axis.add_patch(plt.Circle((0, 0), OUTSIDE + 0.9, color=color(1), alpha=0.35, linewidth=0))
    axis.add_patch(plt.Circle((0, 0), EDGE, color="white", linewidth=0))
    axis.add_patch(plt.Circle((0, 0), EDGE, color=color(0), alpha=0.25, linewidth=0))
    at = {
        room: place(angle, (depth(room, core) > 0) * (1 + 0.47 * depth(room, core)))
        for room, angle in ANGLES.items()
        if room in core
    }
    for room, seen in core.items():
        beyond = {other for nearer in seen for other in reached(nearer, core)}
        for other in seen - beyond:
            arrow(axis, at[room], at[other])
        box(axis, at[room], "base\nand C++" if room == "base" else room, 0)
    extensions = sorted(room for room in rooms() if room.startswith("ext."))
    for number, room in enumerate(extensions):
        angle = number / len(extensions) - 0.02
        arrow(axis, place(angle, OUTSIDE), place(angle, EDGE))
        box(axis, place(angle, OUTSIDE), room, 1)
    axis.text(0, -EDGE + 0.45, "sweephand.extend and public names", ha="center", va="center")
    axis.set_xlim(-9, 9)
    axis.set_ylim(-9, 9)
    axis.set_aspect("equal")
    axis.axis("off")
    return figure


def rooms() -> dict[str, set[str]]:
    """Return the rooms that each room imports, by the files in both."""
    known, sees = modules(), dict[str, set[str]]()
    for module, path in known.items():
        named = (module_of(name, known) for name, is_late in imports(path) if not is_late)
        sees.setdefault(room_of(module), set()).update(map(room_of, filter(None, named)))
    return sees


def room_of(module: str) -> str:
    """Return the folder of a file, two folders for an extension."""
    return ".".join(module.split(".")[: 1 + module.startswith("ext.")])


def reached(room: str, sees: dict[str, set[str]]) -> set[str]:
    """Return all rooms below a room."""
    return sees[room].union(*(reached(other, sees) for other in sees[room]))


def depth(room: str, sees: dict[str, set[str]]) -> int:
    """Return the length of the longest way of imports from a room."""
    return max((1 + depth(other, sees) for other in sees[room]), default=0)


def place(angle: float, radius: float) -> tuple[float, float]:
    """Return a place by its part of a turn and its distance from the middle."""
    return radius * cos(2 * pi * angle), radius * sin(2 * pi * angle)


def arrow(axis: Axes, begin: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an import."""
    style = {"arrowstyle": "-|>", "color": "0.35", "shrinkA": 12, "shrinkB": 19}
    axis.annotate("", end, begin, arrowprops=style, zorder=1)


def box(axis: Axes, at: tuple[float, float], text: str, number: int) -> None:
    """Draw a room."""
    shape = {"boxstyle": "round", "facecolor": color(number), "edgecolor": "white"}
    axis.text(*at, text, ha="center", va="center", bbox=shape, zorder=2)
