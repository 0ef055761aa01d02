"""Seesaw: what stays, what is refused, and that runs resume."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh
from sweephand.source.schedules import Schedule, mean_gradient_rate

factors = st.floats(1.0, 30.0)
falls = st.lists(st.tuples(st.integers(1, 60), factors), min_size=1, max_size=6)


def falling(
    rate: float, cuts: list[tuple[int, float]], reference: int | None, unit: int
) -> Schedule[float]:
    """Make rates that fall by factors, the first one by 2 at least."""
    steps = [(1, 2 * rate)]
    for length, factor in cuts:
        steps.append((length, rate))
        rate /= factor
    return sh.learning_parameter_schedule(steps, reference, epoch_size=unit)


def steps_of(sizes: Schedule[int], num_samples: int) -> list[tuple[int, int]]:
    """Return time and size of each minibatch, one by one."""
    found = []
    time = 0
    while time < num_samples:
        size = min(sizes[time], num_samples - time)
        found.append((time, size))
        time += size
    return found


class TestSeesaw:
    @given(
        st.floats(1e-6, 10.0),
        falls,
        st.one_of(st.none(), st.integers(1, 500)),
        st.integers(1, 20),
        st.lists(st.tuples(st.integers(1, 50), st.integers(1, 64)), min_size=1, max_size=3),
        st.one_of(st.none(), st.integers(64, 4000)),
    )
    def test_squared_rate_over_size_is_what_it_was_at_every_time(
        self,
        rate: float,
        cuts: list[tuple[int, float]],
        reference: int | None,
        unit: int,
        given_sizes: list[tuple[int, int]],
        max_size: int | None,
    ) -> None:
        before = falling(rate, cuts, reference, unit)
        old = sh.minibatch_size_schedule([*given_sizes], 7)
        num_samples = 2 + unit * (2 + sum(length for length, _ in cuts))
        rates, sizes, saved = sh.train.seesaw(before, old, num_samples, max_size=max_size)
        assert rates.minibatch_size == reference
        assert rates.follows == sizes.follows == "consumed"
        for time in range(0, num_samples, max(1, unit // 3)):
            was, now = old[time], sizes[time]
            assert now >= was
            assert now <= max(was, max_size or now)
            x = mean_gradient_rate(before[time], was, reference)
            y = mean_gradient_rate(rates[time], now, reference)
            assert y**2 / now == pytest.approx(x**2 / was, rel=1e-9)
            assert y >= x * (1 - 1e-9)
        assert saved == len(steps_of(old, num_samples)) - len(steps_of(sizes, num_samples))
        assert sum(size for _, size in steps_of(sizes, num_samples)) == num_samples

    def test_rates_that_rise_at_first_keep_their_sizes(self) -> None:
        warm = sh.learning_parameter_schedule([0.1, 0.2, 0.4, 0.1], epoch_size=100)
        rates, sizes, _ = sh.train.seesaw(warm, 8, 1000)
        assert sizes.steps == ((300, 8), (1, 32))
        assert [rates[t] for t in (0, 100, 200, 300)] == [0.1, 0.2, 0.4, 0.2]

    def test_what_comes_behind_the_end_is_not_looked_at(self) -> None:
        late = sh.learning_parameter_schedule([1.0, 0.5, 2.0], epoch_size=100)
        assert sh.train.seesaw(late, 8, 200).minibatch_sizes.steps == ((100, 8), (1, 16))

    def test_rates_by_sweeps_are_refused(self) -> None:
        with pytest.raises(ValueError, match="at the ends of sweeps: give epoch_size"):
            sh.train.seesaw(sh.learning_parameter_schedule([0.4, 0.2]), 8, 1000)
