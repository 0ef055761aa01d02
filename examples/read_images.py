"""Pictures in a folder for each class, decoded to one size.

python examples/read_images.py
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    from PIL import Image
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[image]'")


import sweephand as sh


def main() -> None:
    """Write six pictures, and read three of them."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(6):
            path = Path(folder, "even" if number % 2 == 0 else "odd", f"{number}.png")
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(np.full((20 + number, 30, 3), number, np.uint8)).save(path)
        streams = {
            "image": sh.StreamDef(decode="image", shape=(3, 16, 16)),
            "label": sh.StreamDef(),
        }
        corpus = sh.open(folder, streams)
        with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
            minibatch = source.next_minibatch(3)
    print(minibatch["image"].values.shape, minibatch["image"].values[:, 0, 0, 0].tolist())
    print(minibatch["label"].values.tolist(), minibatch.ids)


if __name__ == "__main__":
    main()
