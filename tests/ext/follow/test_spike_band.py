"""The band of healthy figures, and the search for culprits."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sweephand.ext.follow.spike import LEAST_FIGURES, Band
from sweephand.ext.follow.spike_policy import find_spiking


def highest(figures: Sequence[float]) -> float:
    """Return the highest z-score of figures that all are healthy."""
    band, found = Band(), 0.0
    for figure in figures:
        found = max(found, band.z_score(figure, 8))
        band.add(figure, 8)
    return found


class TestBand:
    @pytest.mark.parametrize("sigma", [0.01, 0.3, 1.0, 2.0])
    def test_log_normal_losses_are_healthy_however_they_scatter(self, sigma: float) -> None:
        figures = np.exp(sigma * np.random.default_rng(0).normal(size=25_000))
        assert highest(figures.tolist()) < 7

    @pytest.mark.parametrize("steps", [10, 100, 1000])
    @pytest.mark.parametrize("sigma", [0.003, 0.1])
    def test_a_loss_that_falls_and_stays_is_healthy(self, steps: int, sigma: float) -> None:
        rng = np.random.default_rng(0)
        fall = np.minimum(np.arange(2 * steps + 200), steps) / steps
        figures = np.exp(-3 * fall + sigma * rng.normal(size=len(fall)))
        assert highest(figures.tolist()) < 7

    def test_a_spike_on_a_falling_loss_is_seen(self) -> None:
        band = Band()
        for step in range(100):
            band.add(10 * 0.99**step, 8)
        assert band.z_score(10 * 0.99**100, 8) < 0
        assert band.z_score(10 * 0.99**50, 8) > 8

    def test_few_figures_have_no_band_but_what_is_not_finite_is_out(self) -> None:
        band = Band()
        for _ in range(LEAST_FIGURES - 1):
            band.add(1.0, 8)
        assert band.z_score(1000.0, 8) == 0
        assert band.z_score(math.nan, 8) == band.z_score(-math.inf, 8) == math.inf
        band.add(1.0, 8)
        assert band.z_score(1000.0, 8) > 8

    def test_few_samples_count_as_part_of_a_minibatch(self) -> None:
        rng = np.random.default_rng(0)
        band = Band()
        for _ in range(64):
            band.add(math.exp(rng.normal(0, 0.1)), 100)
        assert band.z_score(2.0, 100) == pytest.approx(band.z_score(11.0, 10), rel=0.1)


def search(losses: dict[str, float]) -> tuple[list[str], int]:
    """Return the culprits among sequences with losses, and how many looks they took."""
    looks = 0
    size = len(losses)

    def look(ids: Sequence[str]) -> float:  # as a band of sigma 0.1 about 1
        nonlocal looks
        looks += 1
        loss = sum(losses[one] for one in ids)
        if math.isnan(loss):
            return math.inf
        return math.log(1 + len(ids) / size * (loss / len(ids) - 1)) / 0.1

    return find_spiking(list(losses), look, 8.0), looks


class TestBisection:
    @pytest.mark.parametrize("count", [1, 2, 3, 8, 13, 16, 100])
    @pytest.mark.parametrize("loss", [500.0, math.nan])
    def test_one_is_found_in_2_log2_n_steps_and_one_more(self, count: int, loss: float) -> None:
        for bad in {0, count // 3, count - 1}:
            losses = {f"s{i}": loss if i == bad else 1.0 for i in range(count)}
            found, looks = search(losses)
            assert found == [f"s{bad}"]
            assert looks <= 2 * math.ceil(math.log2(count)) + 1

    @pytest.mark.parametrize("loss", [500.0, math.nan])
    @pytest.mark.parametrize("bad", [(0, 1), (0, 15), (3, 7, 8), (1, 5, 9, 13)])
    def test_several_are_all_found(self, bad: tuple[int, ...], loss: float) -> None:
        losses = {f"s{i}": loss if i in bad else 1.0 for i in range(16)}
        found, looks = search(losses)
        assert sorted(found) == sorted(f"s{i}" for i in bad)
        assert looks <= len(bad) * (2 * 4 + 2)

    def test_healthy_ones_beside_a_culprit_are_never_found(self) -> None:
        rng = np.random.default_rng(0)
        for _ in range(300):
            losses = {f"s{i}": float(x) for i, x in enumerate(rng.lognormal(-0.5, 1, 32))}
            losses["s17"] = 200.0
            assert search(losses)[0] == ["s17"]

    def test_a_minibatch_that_is_bad_everywhere_has_no_culprits(self) -> None:
        assert search({f"s{i}": 5.0 for i in range(16)})[0] == []

    def test_what_spikes_alone_but_not_among_others_is_let_go(self) -> None:
        def look(ids: Sequence[str]) -> float:
            return math.inf if "bad" in ids or len(ids) == 1 else 0.0

        assert find_spiking(["a", "b", "bad", "c"], look, 8.0) == ["bad"]
