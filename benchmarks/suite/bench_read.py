"""The parsers of text and records on one thread, beside NumPy, pyarrow and plain Python."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent.parent))  # for the package `benchmarks`

from benchmarks.reading import TEXTS, Records, Text, best_seconds


class TextFiles:
    """Megabytes of text a second; files are in the page cache."""

    params = (
        list(TEXTS),
        ["sweephand", "sweephand index", "pyarrow csv", "NumPy loadtxt", "Python csv"],
    )
    param_names = ("text", "reader")
    timeout = 600
    unit = "MB/s"

    def setup(self, text: str, reader: str) -> None:
        self.folder = TemporaryDirectory()
        self.work, self.size = Text(text, Path(self.folder.name)).contenders()[reader]

    def teardown(self, text: str, reader: str) -> None:
        self.folder.cleanup()

    def track_rate(self, text: str, reader: str) -> float:
        return self.size / best_seconds(self.work, 3) / 1e6


class RecordFiles:
    """Thousands of records a second, checksums verified; files are in the page cache."""

    params = (["sweephand", "sweephand index", "plain Python"],)
    param_names = ("reader",)
    timeout = 600
    unit = "k/s"

    def setup(self, reader: str) -> None:
        self.folder = TemporaryDirectory()
        self.work, self.count = Records(Path(self.folder.name)).contenders()[reader]

    def teardown(self, reader: str) -> None:
        self.folder.cleanup()

    def track_rate(self, reader: str) -> float:
        return self.count / best_seconds(self.work, 3) / 1e3
