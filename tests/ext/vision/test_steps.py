"""Steps do what torchvision's of the same names do, and draw from what they are given alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.ext.vision import images
from sweephand.ext.vision.images.transforms import resized

Image = pytest.importorskip("PIL.Image")

PICTURE = np.arange(12 * 9 * 3, dtype=np.uint8).reshape(12, 9, 3)


def run(step: Any, picture: np.ndarray = PICTURE, seed: int = 0) -> np.ndarray:
    return np.asarray(step(picture, np.random.default_rng(seed)))


@pytest.mark.parametrize(("size", "shape"), [(6, (8, 6)), ((4, 5), (4, 5)), (18, (24, 18))])
@pytest.mark.parametrize("how", ["bilinear", "nearest", "bicubic"])
def test_resize_is_that_of_pillow(size: Any, shape: tuple[int, int], how: str) -> None:
    found = run(images.Resize(size, how))
    wanted = Image.fromarray(PICTURE).resize(shape[::-1], getattr(Image, how.upper()))
    assert (found == np.asarray(wanted)).all()
    for channels in (1, 2, 4):
        many = np.dstack([PICTURE] * 2)[..., :channels]
        assert (run(images.Resize(size, how), many)[..., 0] == found[..., 0]).all()
    floats = run(images.Resize(size, how), PICTURE.astype(np.float32))
    assert floats.dtype == np.float32
    if how == "bilinear":
        assert abs(floats - found).max() <= 1


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_every_channel_is_resized_by_itself(channels: int, dtype: str) -> None:
    picture = np.random.default_rng(3).integers(0, 256, (20, 30, channels)).astype(dtype)
    for box in (None, (1.5, 2.0, 17.25, 30.0)):
        found = resized(picture[:, ::-1], (7, 40), "bicubic", box)
        assert (found.shape, found.dtype) == ((7, 40, channels), picture.dtype)
        for channel in range(channels):
            alone = picture[:, ::-1, channel : channel + 1].copy()
            assert np.array_equal(
                found[..., [channel]], resized(alone, (7, 40), "bicubic", box)
            )


def test_the_middle_is_cut_out_or_padded() -> None:
    assert (run(images.CenterCrop((4, 5))) == PICTURE[4:8, 2:7]).all()
    padded = run(images.CenterCrop((14, 9)))
    assert (padded[1:13] == PICTURE).all()
    assert not padded[0].any()
    assert not padded[13].any()


def test_random_crops_reach_every_place_and_no_other() -> None:
    step = images.RandomCrop((11, 8))
    found = {run(step, seed=seed).tobytes() for seed in range(60)}
    assert found == {PICTURE[t : t + 11, s : s + 8].tobytes() for t in (0, 1) for s in (0, 1)}
    assert run(images.RandomCrop(12, padding=2, fill=7)).shape == (12, 12, 3)
    with pytest.raises(ValueError, match="too small for a crop of 12 x 12"):
        run(images.RandomCrop(12))


def test_a_resized_crop_is_of_the_wanted_area_and_size() -> None:
    picture = np.zeros((200, 100, 1), np.uint8)
    step = images.RandomResizedCrop((7, 5), scale=(0.2, 0.3), ratio=(0.5, 2))
    for seed in range(50):
        top, left, height, width = step._box(200, 100, np.random.default_rng(seed))
        assert 0 <= top <= 200 - height
        assert 0 <= left <= 100 - width
        assert 0.18 <= height * width / 20_000 <= 0.32
        assert 0.45 <= width / height <= 2.2
    assert run(step, picture).shape == (7, 5, 1)
    thin = images.RandomResizedCrop(4, scale=(1, 1), ratio=(1, 1))
    assert thin._box(200, 100, np.random.default_rng(0)) == (50, 0, 100, 100)


def test_flips_mirror_about_half_of_the_pictures() -> None:
    for step, axis in [
        (images.RandomHorizontalFlip(), 1),
        (images.RandomVerticalFlip(), 0),
    ]:
        flipped = [(run(step, seed=seed) != PICTURE).any() for seed in range(200)]
        assert 70 < sum(flipped) < 130
        assert (run(type(step)(1.0)) == np.flip(PICTURE, axis)).all()
        assert (run(type(step)(0.0)) == PICTURE).all()


def test_numbers_become_floats_of_mean_and_deviation() -> None:
    steps = images.Compose(
        [images.ToDtype("float32"), images.Normalize([0.5, 0.4, 0.3], [0.2, 0.2, 0.1])]
    )
    wanted = (PICTURE / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.2, 0.1]
    np.testing.assert_allclose(run(steps), wanted, rtol=1e-5, atol=1e-6)
    assert run(steps).dtype == np.float32
    assert not steps.is_random
    with pytest.raises(ValueError, match="put ToDtype"):
        run(images.Normalize(0, 1))


def test_a_function_and_a_step_of_ones_own_are_steps() -> None:
    class Noise(sh.images.Transform):
        is_random = True

        def __call__(self, picture: Any, draw: np.random.Generator) -> Any:
            return picture + draw.integers(0, 2, picture.shape, np.uint8)

    steps = [Noise(), np.flipud]
    pictures = np.stack([PICTURE] * 4)
    corpus = sh.ArrayDeserializer({"x": pictures, "mask": pictures}).map(
        sh.images.transform(["x", "mask"], steps, channels_first=False)
    )
    with sh.MinibatchSource(corpus, max_sweeps=1) as source:
        minibatch = source.next_minibatch(4)
        x = minibatch["x"].values
        assert (x == minibatch["mask"].values).all(), "a picture and its mask draw the same"
        assert (x[0] != x[1]).any(), "sequences draw by themselves"
        assert {int(one) for one in np.unique(x[:, ::-1] - PICTURE)} == {0, 1}
