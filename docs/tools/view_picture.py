"""Takes the picture of docs/view.md, in Chromium by Playwright.

    python docs/tools/view_picture.py [FILE]

Without a file it is docs/images/view.png.
"""

import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

import sweephand as sh

ROOT = Path(__file__).parents[2]
WORDS = re.compile(r"\s*\w+|\s*[^\w\s]")


def main() -> None:
    """Take it."""
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "view.png"
    source, decode = made()
    page = source.show(1024, 9, decode=decode, num_data_partitions=2)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = page.write(Path(folder) / "page.html")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        shown = browser.new_page(viewport={"width": 1000, "height": 1340})
        shown.goto(path.as_uri())
        shown.screenshot(path=picture)
        browser.close()


def made() -> tuple[sh.MinibatchSource, object]:
    """Return a mixture of pages and code in packed rows, and the text of its tokens."""
    files = {
        "pages": sorted((ROOT / "docs").glob("*.md")),
        "code": sorted((ROOT / "python" / "sweephand").rglob("*.py")),
    }
    vocabulary: dict[str, int] = {}
    corpora = {}
    for name, paths in files.items():
        parts = [part for path in paths for part in path.read_text().split("\n\n")]
        tokens = [
            np.array([vocabulary.setdefault(word, len(vocabulary)) for word in found])
            for part in parts
            if 8 <= len(found := WORDS.findall(part.strip())) <= 128
        ]
        corpora[name] = sh.ArrayDeserializer({"tokens": tokens})
    corpus = sh.Mixture(corpora, weights={"pages": 3, "code": 1})
    events = [
        sh.events.Skip(at=3_000, stop=5_000),
        sh.events.Weights(at=60_000, weights={"pages": 1, "code": 1}),
    ]
    source = sh.MinibatchSource(corpus, layout=sh.Packed(128), events=events)
    return source, list(vocabulary)


main()
