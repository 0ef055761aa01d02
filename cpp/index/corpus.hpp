// A corpus as the planner sees it: its chunks and the sizes of its sequences.
#pragma once

#include "index/chunk_table.hpp"
#include "index/given_order.hpp"
#include "index/loss_masks.hpp"
#include "index/sizes.hpp"

#include <memory>

namespace sweephand {

struct Corpus {
  ChunkTable chunks;
  std::shared_ptr<const Sizes> sizes;
  std::shared_ptr<const GivenOrder> order;  // of sweeps that are not shuffled; null: as stored
  std::shared_ptr<const LossMasks> masks;   // null: there are none
};

// Throws std::invalid_argument when sizes are missing, or those that all sequences share do not
// sum to the samples of every chunk. Sizes that differ are looked at where they are used.
void check(const Corpus& corpus);

}  // namespace sweephand
