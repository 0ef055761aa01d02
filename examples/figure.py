"""The picture of a learning curve, from the lines that a `JSONLProgressWriter` has written."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path


def curve(log: Path, kind: str, figure: str) -> tuple[list[int], list[float]]:
    """Return the label samples and values of one figure in all records of a kind."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    chosen = [record for record in records if record["kind"] == kind and figure in record]
    return [record["samples"] for record in chosen], [record[figure] for record in chosen]


def draw(
    path: Path,
    title: str,
    panels: Iterable[tuple[str, dict[str, tuple[list[int], list[float]]]]],
    xlabel: str = "label samples seen",
    log_scales: Collection[str] = (),
) -> None:
    """Draw curves side by side.

    Parameters
    ----------
    path : Path
        The picture.
    panels : iterable of (label of the y-axis, curves by name)
    log_scales : collection of str
        Labels of the y-axes that are logarithmic.
    """
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import EngFormatter

    panels = list(panels)
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.5 * len(panels), 3.2), squeeze=False, layout="constrained"
    )
    for axis, (ylabel, curves) in zip(axes[0], panels, strict=True):
        for name, (samples, values) in curves.items():
            axis.plot(samples, values, label=name, marker="." if len(samples) < 30 else None)
        axis.set_xlabel(xlabel)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.set_ylabel(ylabel)
        if ylabel in log_scales:
            axis.set_yscale("log", base=2)
        axis.grid(alpha=0.3)
        if len(curves) > 1:
            axis.legend()
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    print(f"figure: {path}")
