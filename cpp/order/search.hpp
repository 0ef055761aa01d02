// Searches along the lanes of a sweep.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sweephand {

// The largest offset with samples_before(offset) <= samples, for a function that never falls
// and is 0 at 0. It gallops from `near`, then halves: far places are not looked at, as each
// would open a block per lane. REQUIRES: samples_before passes `samples` somewhere
template <class SamplesBefore>
std::uint64_t last_offset(std::uint64_t near, std::uint64_t samples,
                          const SamplesBefore& samples_before) {
  const auto at_or_before = [&](std::uint64_t offset) {
    return samples_before(offset) <= samples;
  };
  std::uint64_t low = near;
  std::uint64_t high = near;
  for (std::uint64_t step = 1; !at_or_before(low); step *= 2) {
    high = low;
    low -= std::min(low, step);
  }
  for (std::uint64_t step = 1; high == low || at_or_before(high); step *= 2) {
    low = high;
    high += step;
  }
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (at_or_before(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace sweephand
