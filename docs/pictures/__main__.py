"""Draws the pictures of the pages: every module here with a function `draw`.

    python docs/pictures [FOLDER]

Without a folder they are written to docs/images.
"""

import importlib
import sys
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).parent


def main() -> None:
    """Draw all."""
    mpl.use("agg")
    mpl.rcParams["font.size"] = 9
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "images"
    for path in sorted(HERE.glob("[!_]*.py")):
        draw = getattr(importlib.import_module(path.stem), "draw", None)
        if draw is not None:
            draw().savefig(folder / f"{path.stem}.png", dpi=110, metadata={"Software": None})
            print(folder / f"{path.stem}.png")


main()
