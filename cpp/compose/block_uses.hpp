// Blocks that a plan returns to, and the spans of their use.
#pragma once

#include "order/block.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace sweephand {

// Holding a block keeps its chunks open. Places are the units of the plan: rows, or
// minibatches.
class BlockUses {
 public:
  // A further block; its index is the number of blocks before it.
  void add(std::shared_ptr<const Block> block) { uses_.push_back({.block = std::move(block)}); }

  // The block of this index is needed at `place`. REQUIRES: none was let go
  void need(std::size_t index, std::uint64_t place) noexcept {
    uses_[index].first = std::min(uses_[index].first, place);
    uses_[index].last = std::max(uses_[index].last, place);
  }

  // Adds the blocks that are needed before or at `place`, and are still held.
  void open_at(std::uint64_t place, std::vector<std::shared_ptr<const Block>>& blocks) const {
    for (const Use& use : uses_) {
      if (use.first <= place) blocks.push_back(use.block);
    }
  }

  // Adds the blocks that are needed for the first time at `place`.
  void opened_at(std::uint64_t place, std::vector<std::shared_ptr<const Block>>& blocks) const {
    for (const Use& use : uses_) {
      if (use.first == place) blocks.push_back(use.block);
    }
  }

  // Lets go the blocks that are not needed at `place` or later.
  void close_before(std::uint64_t place) {
    if (!std::exchange(by_last_, true)) std::ranges::sort(uses_, std::greater(), &Use::last);
    while (!uses_.empty() && uses_.back().last < place) uses_.pop_back();
  }

 private:
  struct Use {
    std::shared_ptr<const Block> block;
    std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t last = 0;
  };

  std::vector<Use> uses_;
  bool by_last_ = false;  // those that are needed longest come first
};

}  // namespace sweephand
