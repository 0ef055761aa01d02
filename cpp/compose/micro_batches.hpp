// Rows dealt so that all workers, and all micro-batches of each, cost nearly the same:
// docs/layouts.md, section 12.
#pragma once

#include "base/mix.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// The taker of each item by `costs`. None takes more than `most`; either no exchange between
// the taker with the largest load and those with the smallest ones would help, or that load is
// within 1/256 of the mean. `before` has what takers have already; empty: nothing, and then
// every taker gets an item where there are enough. REQUIRES: costs.size() <= num_takers * most
std::vector<std::uint32_t> deal_evenly(std::span<const uint128> costs, std::uint32_t num_takers,
                                       std::uint64_t most,
                                       std::span<const uint128> before = {});

// The rows of one worker, one micro-batch after the other, the costliest first; kNoRow fills
// them to `micro_batch_rows`. All workers have the same number. REQUIRES: rank < num_workers,
// micro_batch_rows >= 1
inline constexpr std::uint32_t kNoRow = ~std::uint32_t{0};
std::vector<std::uint32_t> micro_batches(std::span<const uint128> costs,
                                         std::uint32_t num_workers, std::uint32_t rank,
                                         std::uint32_t micro_batch_rows);

// The same of rows that are all one worker's, in `count` micro-batches. REQUIRES: costs.size()
// <= count * micro_batch_rows
std::vector<std::uint32_t> grouped(std::span<const uint128> costs, std::uint32_t count,
                                   std::uint32_t micro_batch_rows);

}  // namespace sweephand
