"""The site: Sphinx over the pages of this folder and the docstrings of the package.

    sphinx-build -W --keep-going -b html docs build/site

Nothing is fetched, neither when it is built nor when it is read.
"""

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from types import ModuleType

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

sys.path.insert(0, str(Path(__file__).parent))

from tools.pages import (
    as_markdown,
    name_as_shown,
    public_base,
    read_docstring,
    with_commands,
    with_contents,
    with_reference,
)

import sweephand as sh
from sweephand.base.public_names import importable_names

project = "sweephand"
version = release = version_of("sweephand")
copyright = "the sweephand authors"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
exclude_patterns = ["_build", "tools", "**/.ipynb_checkpoints"]

# Anchors are those of GitHub, so that a link to a section works there and here.
myst_heading_anchors = 4

default_role = "py:obj"
suppress_warnings = ["ref.python"]  # `Learner` is NumPy's and torch's; the first one is linked
add_module_names = False
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say types, with shapes and units
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

FACADES = [
    f"sweephand{room}"
    for room in (
        *(
            "",
            ".mxnet",
            ".numpy",
            ".tfds",
            ".tfrecord",
            ".torch",
            ".torch.distributed",
            ".train",
        ),
        *(".torch.megatron", ".torch.torchtitan", ".torch.transformers", ".torchft", ".ray"),
    )
]

_PROPERTIES: dict[str, list[str]] = {}

html_theme = "furo"
html_title = f"sweephand {release}"
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def read_page(app: Sphinx, name: str, content: list[str]) -> None:
    """Add what a page is more than it says."""
    if Path(app.env.doc2path(name)).suffix == ".ipynb":
        content[0] = as_markdown(content[0])
    elif name == "index":
        content[0] = with_contents(content[0])
    elif name == "command_line":
        content[0] = with_commands(content[0])
    elif name.startswith("api/"):
        content[0] = with_reference(content[0])


def before_napoleon(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Make reStructuredText of a docstring, and keep that of a property.

    Napoleon takes what stands before the first colon of a property for its type.
    """
    read_docstring(lines, what, thing)
    if what == "property" and not any(set(line) == {"-"} for line in lines):
        _PROPERTIES[name] = list(lines)


def after_napoleon(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Put back what a property says."""
    lines[:] = _PROPERTIES.pop(name, lines)


def public_bases(
    app: Sphinx, name: str, thing: type, options: object, bases: list[type | str]
) -> None:
    """Name the public class that a class extends, and no private ones between them."""
    facade = name.rpartition(".")[0]
    base = public_base(facade, thing)
    bases[:] = [f":py:class:`~{base}`"] if base else bases


class LinkNames(SphinxTransform):
    """Link names of the package, written as code, to the reference."""

    default_priority = 500

    def apply(self, **kwargs: object) -> None:
        """Link those that stand outside of titles and links."""
        for literal in list(self.document.findall(nodes.literal)):
            target = target_of(literal.astext())
            parents = (nodes.title, nodes.reference, pending_xref)
            if target and not isinstance(literal.parent, parents):
                link = pending_xref(
                    "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True
                )
                literal.replace_self(link)
                link += literal


def target_of(code: str) -> str | None:
    """Return what a piece of code names of the package, if it is one name or call of it.

    A bare name counts if nothing else is called so.
    """
    found = re.fullmatch(r"(sh\.(?:(\w+)\.)?)?(\w+)(?:\(.*\))?", code)
    if found is None:
        return None
    prefix, room, name = found.groups()
    if prefix is None and name.islower() and "_" not in name:
        return None
    if room in (None, "train"):
        room = None if name in importable_names(sh) else "train"
    owner = sh if room is None else getattr(sh, room, None)
    if not isinstance(owner, ModuleType) or name not in importable_names(owner):
        return None
    return ".".join(part for part in ("sweephand", room, name) if part)


def setup(app: Sphinx) -> None:
    """Connect the pages."""
    for facade in FACADES:
        name_as_shown(facade)
    app.connect("source-read", read_page)
    app.connect("autodoc-process-bases", public_bases)
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", after_napoleon, priority=600)
    app.add_transform(LinkNames)
