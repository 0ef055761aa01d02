"""JPEGs that are decoded, cropped and mirrored over threads, beside the decoder alone."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

import sweephand as sh

from .contest import Found, Row, peer
from .corpora import scaled
from .family import with_workers
from .turn import Steps

PICTURES, MINIBATCH, THREADS = 512, 64, 2
HEIGHT, WIDTH, SIDE = 375, 500, 224


def minibatch_size() -> int:
    """Return the pictures of a minibatch, few where all is scaled down."""
    return max(8, min(MINIBATCH, scaled(100 * MINIBATCH)))


@cache
def make_jpegs() -> list[bytes]:
    """Return pictures like photographs: patches of colour, and some noise; 60 kB each."""
    from PIL import Image

    rng = np.random.default_rng(0)
    found = []
    for _ in range(max(minibatch_size(), scaled(PICTURES))):
        patches = rng.integers(0, 256, (HEIGHT // 25, WIDTH // 25, 3))
        pixels = np.kron(patches, np.ones((25, 25, 1))) + rng.normal(0, 15, (HEIGHT, WIDTH, 1))
        file = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
        found.append(file.getvalue())
    return found


def picked(jpegs: list[bytes]) -> Iterator[list[bytes]]:
    """Yield shuffled minibatches."""
    rng = np.random.default_rng(0)
    size = minibatch_size()
    while True:
        order = rng.permutation(len(jpegs))
        for begin in range(0, len(order) - size + 1, size):
            yield [jpegs[number] for number in order[begin : begin + size]]


def in_threads(work: Callable[[bytes], Any]) -> Iterator[int]:
    """Do a work of pictures over as many threads, in no order."""
    jpegs = make_jpegs()
    with ThreadPoolExecutor(THREADS) as threads:
        for minibatch in picked(jpegs):
            for _ in threads.map(work, minibatch):
                pass
            yield len(minibatch)


def decoder_alone() -> Steps:
    from PIL import Image

    def decode(jpeg: bytes) -> None:
        Image.open(io.BytesIO(jpeg)).load()

    return in_threads(decode)


def by_best(jpeg: bytes) -> np.ndarray[Any, Any]:
    """Return a picture by the decoder that sweephand takes."""
    try:
        from simplejpeg import decode_jpeg
    except ImportError:
        from PIL import Image

        return np.asarray(Image.open(io.BytesIO(jpeg)))
    return np.asarray(decode_jpeg(jpeg))


def cropped(jpeg: bytes, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return a picture decoded, cropped and mirrored, the channels first."""
    picture = by_best(jpeg)
    top, left = rng.integers(HEIGHT - SIDE + 1), rng.integers(WIDTH - SIDE + 1)
    picture = picture[top : top + SIDE, left : left + SIDE]
    if rng.random() < 0.5:
        picture = picture[:, ::-1]
    return np.ascontiguousarray(picture.transpose(2, 0, 1))


def resized(jpeg: bytes, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return a random part of a picture in one size and mirrored, as torchvision does."""
    from PIL import Image

    picture = Image.fromarray(by_best(jpeg))
    top, left, height, width = random_part(picture.height, picture.width, rng)
    part = picture.crop((left, top, left + width, top + height))
    part = part.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    if rng.random() < 0.5:
        part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.ascontiguousarray(np.asarray(part).transpose(2, 0, 1))


def random_part(height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Return top, left, height and width of 8 to 100 % of the area; rarely the middle."""
    for _ in range(10):
        area, ratio = height * width * rng.uniform(0.08, 1), rng.uniform(0.75, 1.33)
        wide, high = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < wide <= width and 0 < high <= height:
            top = int(rng.integers(height - high + 1))
            return top, int(rng.integers(width - wide + 1)), high, wide
    return 0, (width - height) // 2, height, height


def turbo_alone() -> Iterator[int]:
    from simplejpeg import decode_jpeg

    return in_threads(decode_jpeg)


def resized_by_hand() -> Iterator[int]:
    rng = np.random.default_rng(0)
    return in_threads(lambda jpeg: resized(jpeg, rng))


def by_hand() -> Steps:
    rng = np.random.default_rng(0)
    return in_threads(lambda jpeg: cropped(jpeg, rng))


def decoded(transforms: list[Any], workers: int = THREADS) -> Iterator[int]:
    jpegs = sh.ArrayDeserializer({"image": make_jpegs()})
    corpus = jpegs.map(sh.decode.image("image", transforms=transforms))
    with sh.MinibatchSource(corpus, num_map_workers=workers) as source:
        for minibatch in source.minibatches(minibatch_size()):
            _ = minibatch["image"].values
            yield minibatch.num_samples


STEPS = [sh.images.RandomCrop(SIDE), sh.images.RandomHorizontalFlip()]


class Jpegs(Row):
    """JPEGs of 375 x 500 pixels: decode, random crop of 224, flip; 64 at a time, 2 threads."""

    contenders = {
        "sweephand": lambda: with_workers(decoded(STEPS)),
        "Pillow alone": lambda: with_workers(decoder_alone()),
        "NumPy by hand": lambda: with_workers(by_hand()),
        "torch DataLoader, 2 workers": peer("torch_pictures.cropped_pictures"),
    }
    unit, per = "pictures/s", 1.0

    def setup_cache(self) -> Found:
        return self.compete()


RESIZED_STEPS = [sh.images.RandomResizedCrop(SIDE), sh.images.RandomHorizontalFlip()]


class ResizedJpegs(Row):
    """JPEGs of 375 x 500: decode, random part in 224 x 224, flip; 64 at a time, 2 threads."""

    contenders = {
        "sweephand": lambda: with_workers(decoded(RESIZED_STEPS)),
        "libjpeg-turbo alone": lambda: with_workers(turbo_alone()),
        "Pillow by hand": lambda: with_workers(resized_by_hand()),
        "torch DataLoader, 2 workers": peer("torch_pictures.resized_pictures"),
    }
    unit, per = "pictures/s", 1.0

    def setup_cache(self) -> Found:
        return self.compete()
