"""Pages of the site that are more than they say: the contents, the reference, notebooks.

Pages are plain Markdown, so that they read well where there is no site. What the site adds is
derived from them when it is built: its navigation from the links of the home page, the
reference from the public names, commands from their help, a page from a notebook.
"""

import argparse
import functools
import inspect
import json
import os
import re
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import sweephand
import sweephand.torch
from sweephand.base.public_names import importable_names
from sweephand.cli import parser

DOCS = Path(__file__).parents[1]

REFERENCE = re.compile(r"^```reference\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def with_contents(text: str) -> str:
    """Return the home page with the navigation: the pages that each of its sections lists.

    A section whose name is that of a folder also has those of the folder that no section lists.
    """
    sections = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    listed = set(re.findall(r"\]\(([\w/]+)\.(?:md|ipynb)\)", text))
    trees = []
    for caption, body in zip(sections[::2], sections[1::2], strict=True):
        pages = re.findall(r"^\* \[([^\]]+)\]\(([\w/]+)\.(?:md|ipynb)\)", body, re.MULTILINE)
        lines = [f"{title} <{page}>" for title, page in pages]
        folder = caption.lower()
        there = {path for kind in ("md", "ipynb") for path in (DOCS / folder).glob(f"*.{kind}")}
        lines += sorted({f"{folder}/{path.stem}" for path in there} - listed)
        trees += ["```{toctree}", ":hidden:", f":caption: {caption}", "", *lines, "```", ""]
    return "\n".join([text, *trees])


def with_commands(text: str) -> str:
    """Return a page with the help of all commands in place of its block ``commands``."""
    [words] = (
        action.choices for action in parser()._actions if isinstance(action.choices, dict)
    )
    sections = [f"## {name}\n\n```text\n{help_of(words[name])}```" for name in words]
    return text.replace("```commands\n```", "\n\n".join(sections))


def help_of(command: argparse.ArgumentParser) -> str:
    """Return the help of a command, on a screen of 80 columns."""
    with patch.dict(os.environ, COLUMNS="80", NO_COLOR="1"):
        return command.format_help()


def facade_at(name: str) -> ModuleType:
    """Return what is shown under a dotted name, which may be defined elsewhere."""
    found: ModuleType = functools.reduce(getattr, name.split(".")[1:], sweephand)
    return found


def public_names(facade: str, rooms: list[str]) -> list[str]:
    """Return what a module shows of some rooms of the package, all of it where none is named.

    Parameters
    ----------
    facade : str
        The module, such as ``"sweephand"``.
    rooms : list of str
        Modules below ``sweephand`` in which things are defined; ``"constants"`` are the things
        that are neither class nor function.
    """
    module = facade_at(facade)
    found = {name: room_of(getattr(module, name)) for name in own_names(facade)}
    wanted = {name: room for name, room in found.items() if room is not None}
    return [
        name
        for name, room in wanted.items()
        if not rooms or any(f"{room}.".startswith(f"{one}.") for one in rooms)
    ]


def own_names(facade: str) -> list[str]:
    """Return the names to document under a module: a flat name is not repeated below."""
    names = importable_names(facade_at(facade))
    flat = importable_names(sweephand) if facade == "sweephand.train" else ()
    return [name for name in names if name not in flat]


def room_of(thing: object) -> str | None:
    """Return the module below ``sweephand`` that defines a public thing; None for a module."""
    if isinstance(thing, ModuleType):
        return None
    if inspect.isclass(thing) or inspect.isroutine(thing):
        return thing.__module__.removeprefix("sweephand.")
    return "constants"


def listed(block: str) -> list[tuple[str, str]]:
    """Return (module, name) of what a block of a page asks for, in the order of the pages.

    Each line of the block is ``module: room room ...``.
    """
    lines = [line.partition(":") for line in block.strip().splitlines()]
    return [
        (facade.strip(), name)
        for facade, _, rooms in lines
        for name in public_names(facade.strip(), rooms.split())
    ]


def with_reference(text: str) -> str:
    """Return a page with the documentation that its blocks ``reference`` ask for."""
    return REFERENCE.sub(lambda found: _documentation(listed(found[1])), text)


def _documentation(names: list[tuple[str, str]]) -> str:
    lines = ["```{eval-rst}", ".. autosummary::", "   :nosignatures:", ""]
    lines += [f"   ~{facade}.{name}" for facade, name in names]
    for facade, name in names:
        lines += ["", f".. currentmodule:: {facade}", "", *_directive(facade, name)]
    return "\n".join([*lines, "```"])


def _directive(facade: str, name: str) -> list[str]:
    thing = getattr(facade_at(facade), name)
    if not inspect.isclass(thing):
        kind = "autofunction" if inspect.isroutine(thing) else "autodata"
        return [f".. {kind}:: {facade}.{name}"]
    base = public_base(facade, thing)
    elsewhere = [one.__name__ for one in thing.__mro__ if not _is_ours(one)]
    elsewhere += [base.rpartition(".")[2]] if base else []
    lines = [f".. autoclass:: {facade}.{name}", "   :members:"]
    lines += [f"   :inherited-members: {', '.join(elsewhere)}"]
    return [*lines, "   :show-inheritance:"] if base else lines


def public_base(facade: str, thing: type) -> str | None:
    """Return the full name of the nearest public class that another one extends."""
    shown = {
        id(getattr(facade_at(one), name)): f"{one}.{name}"
        for one in dict.fromkeys(["sweephand.train", "sweephand", facade])
        for name in own_names(one)
    }
    return next((shown[id(base)] for base in thing.__mro__[1:] if id(base) in shown), None)


def name_as_shown(facade: str) -> None:
    """Give classes that a module shows under another name than their own the shown one."""
    module = facade_at(facade)
    names = importable_names(module)
    for name in names:
        thing = getattr(module, name)
        if inspect.isclass(thing) and thing.__name__ not in names:
            thing.__name__ = name


def _is_ours(thing: type) -> bool:
    return thing.__module__.split(".")[0] == "sweephand"


def read_docstring(lines: list[str], what: str, thing: object) -> None:
    """Make a docstring reStructuredText, in place: plain text with code and sections.

    That of an object that has none of its own is the one of its type, and says nothing.
    """
    if what == "data" and not _is_ours(type(thing)):
        lines.clear()
    in_code = in_literal = False
    before = ""
    for number, line in enumerate(lines):
        in_code = line.lstrip().startswith((">>> ", "... ")) or (in_code and bool(line.strip()))
        if line.strip():
            in_literal = line[0].isspace() and (in_literal or before.endswith("::"))
            before = line
        if not (in_code or in_literal):
            lines[number] = escaped(line)


def escaped(line: str) -> str:
    """Return a line of a docstring with what reStructuredText would take for markup escaped.

    Bars are absolute values, and a star within parentheses unpacks a shape. Code, between
    double backticks, stays as it is.
    """
    text, *rest = re.split(r"(``.*?``)", line)
    text = re.sub(r"(?<!\*)\*(?=\w[\w ]*(?:\)|$))", r"\\*", text.replace("|", r"\|"))
    return "".join([text, *rest[:1], escaped("".join(rest[1:])) if rest[1:] else ""])


def as_markdown(notebook: str) -> str:
    """Return a notebook, which is JSON, as a page: text, code, and what the code showed."""
    parts = []
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *map(_output, cell["outputs"])]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, object]) -> str:
    data = output.get("data")
    if isinstance(data, dict) and "image/png" in data:
        return f"![what the code draws](data:image/png;base64,{data['image/png']})"
    text = data["text/plain"] if isinstance(data, dict) else output["text"]
    return f"```text\n{''.join(text).rstrip()}\n```"  # type: ignore[arg-type]
