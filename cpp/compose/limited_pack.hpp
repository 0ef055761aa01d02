// Sequences joined into rows that hold at most so much of several things: docs/layouts.md,
// section 2.
#pragma once

#include "compose/pack.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// The items of one carried stream in each sequence, and the most of them in a row.
struct Load {
  std::span<const std::uint32_t> counts;  // of every sequence, 0 at least
  std::uint32_t limit = 0;
};

// As pack_longest_first, and as pack_in_order, with limits. Where nothing is carried, the rows
// are theirs. REQUIRES: as there; counts <= limit, 1 <= limit <= 2^31, as many counts as sizes
Rows pack_largest_first_within(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                               std::span<const Load> loads);
Rows pack_in_order_within(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                          std::span<const Load> loads, std::uint64_t look_ahead);

}  // namespace sweephand
