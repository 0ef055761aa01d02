// Shares of equal numbers of sequences: docs/order.md, section 7.
#pragma once

#include "compose/share.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// Moves sequences from workers that have too many to others, so that worker k of K has m div K
// + (k < m mod K) of m. `owner` is the worker of each by its lane. Linear in the sequences and
// lanes. REQUIRES: every lane is below rule.num_lanes
void even_counts(std::span<const PlannedSequence> minibatch, std::vector<std::uint32_t>& owner,
                 std::uint32_t num_workers, const ShareRule& rule);

}  // namespace sweephand
