"""Runs the tutorials and writes what they show into them, without Jupyter.

python docs/tools/notebooks.py
"""

import ast
import base64
import io
import json
import os
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parents[1] / "tutorials"

Cell = dict[str, Any]


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with what its cells show when they run one after the other, here."""
    import matplotlib as mpl

    mpl.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = _run_cell("".join(cell["source"]), names)
            cell = cell | {"execution_count": count, "outputs": outputs}
        cells.append(cell)
    return notebook | {"cells": cells}


def shown(cell: Cell) -> str:
    """Return the text that a cell shows."""
    texts = [output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]]
    return "".join("".join(text) for text in texts)


def _run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one cell, and return its text, its last value and its figures.

    As in Jupyter, a semicolon at the end says that the value is not shown.
    """
    import matplotlib.pyplot as plt

    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    outputs: list[dict[str, Any]] = []
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(_compiled(last), names) if last is not None else None
    if out.getvalue():
        lines = out.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is not None and not source.rstrip().endswith(";"):
        outputs.append(_displayed({"text/plain": repr(value).splitlines(keepends=True)}))
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=80)
        encoded = base64.b64encode(picture.getvalue()).decode()
        outputs.append(_displayed({"image/png": encoded, "text/plain": ["<Figure>"]}))
    plt.close("all")
    return outputs


def _compiled(last: ast.stmt) -> Any:
    assert isinstance(last, ast.Expr)
    return compile(ast.Expression(last.value), "<cell>", "eval")


def _displayed(data: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {}}


def main() -> None:
    """Run all tutorials, and keep what they show."""
    given = [Path(name).resolve() for name in sys.argv[1:]]
    for path in given or sorted(TUTORIALS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            os.environ["SWEEPHAND_CACHE"] = folder
            notebook = run(json.loads(path.read_text()))
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        print(path.name)


if __name__ == "__main__":
    main()
