// Searches in tables that ascend.
#pragma once

#include "base/mix.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sweephand {

// The last entry at or before `value` of a table that ascends. Without a branch that depends on
// the value, which random values would mislead. REQUIRES: table[0] <= value
inline std::size_t last_at_or_before(std::span<const std::uint64_t> table,
                                     std::uint64_t value) noexcept {
  std::size_t found = 0;
  for (std::size_t left = table.size(); left > 1;) {
    const std::size_t half = left / 2;
    found += table[found + half] <= value ? half : 0;
    left -= half;
  }
  return found;
}

// Finds items of which most have equal sizes, by their starts: the item that holds a value is
// where it would be if all sizes were equal.
class EvenGuess {
 public:
  EvenGuess() = default;
  EvenGuess(std::size_t num_things, std::uint64_t end) noexcept
      : things_per_unit_(num_things < end
                             ? static_cast<std::uint64_t>((uint128{num_things} << 64) / end)
                             : 0) {}

  // The last thing that starts at or before `value`: empty things share a start and are passed.
  // `starts` are those of all things, and the end. REQUIRES: starts[0] <= value < the end
  std::size_t find(std::span<const std::uint64_t> starts, std::uint64_t value) const noexcept {
    std::size_t guess = this->guess(value);
    // Rounded down, the guess is the thing before where one begins.
    if (starts[guess + 1] <= value) ++guess;
    if (starts[guess] <= value && value < starts[guess + 1]) [[likely]]
      return guess;
    return last_at_or_before(starts.first(starts.size() - 1), value);
  }

  // The item that would hold a value if all sizes were equal.
  std::size_t guess(std::uint64_t value) const noexcept {
    return static_cast<std::size_t>(scale(value, things_per_unit_));
  }

 private:
  std::uint64_t things_per_unit_ = 0;  // in units of 2^-64
};

}  // namespace sweephand
