"""Tables of figures, printed and written into docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

_PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def spread(values: Sequence[float]) -> str:
    """Return the median, with the smallest and the largest."""
    return f"{median(values):.3g} ({min(values):.3g} - {max(values):.3g})"


def write_table(mark: str, lines: Sequence[str]) -> None:
    """Replace what stands between ``<!-- mark -->`` and ``<!-- end mark -->`` in the page."""
    begin, end = f"<!-- {mark} -->", f"<!-- end {mark} -->"
    page = _PAGE.read_text()
    if begin not in page or end not in page:
        raise ValueError(f"{_PAGE} has no place for {mark}: {begin} and {end}")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    _PAGE.write_text("\n".join([before + begin, *lines, end + after]))
