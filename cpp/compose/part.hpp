// A part of a sweep whose minibatches are composed by themselves: docs/layouts.md, section 4.
#pragma once

#include "order/block.hpp"
#include "order/timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace sweephand {

// Blocks that a plan returns to, and the spans of their use.
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

// The sequences that begin in one of n equal parts of a sweep, in the order of the timeline.
struct Part {
  // The place of a sequence of a sweep in `sequences`. Linear. REQUIRES: the part holds it
  std::uint32_t place_of(std::uint64_t sequence, std::uint16_t sweep_mark) const;

  std::uint64_t sweep = 0;
  std::uint64_t number = 0;  // in the sweep
  std::uint64_t begin = 0;   // nominal time
  std::uint64_t end = 0;
  bool ends_sweep = false;
  std::vector<PlannedSequence> sequences;
  std::vector<std::uint32_t> block_of;  // each sequence's index in `blocks`
  std::vector<std::shared_ptr<const Block>> blocks;
};

// Reads the parts of a timeline one after the other. Sequences that begin at or after `limit`
// are not there; an empty part is the end.
class PartReader {
 public:
  // Cuts a sweep into about so many. REQUIRES: parts_per_sweep >= 1
  PartReader(std::shared_ptr<const Timeline> timeline, std::uint64_t parts_per_sweep,
             std::uint64_t limit);

  // The part that holds a sample of nominal time. Costs one place on the timeline, and is
  // linear in the part.
  Part at(std::uint64_t time);

  // The part after the one that was read last. REQUIRES: one was read
  Part next();

  // Where the first part begins that begins at or after `time`.
  std::uint64_t boundary(std::uint64_t time);

 private:
  std::uint64_t part_of(std::uint64_t offset) const noexcept;
  std::uint64_t cut(std::uint64_t part) const noexcept;
  void go_to(std::uint64_t time);
  Part read(std::uint64_t number);

  std::shared_ptr<const Timeline> timeline_;
  std::uint64_t parts_;
  std::uint64_t limit_;
  std::unique_ptr<Cursor> cursor_;
  std::uint32_t taker_ = 0;  // of blocks: a number for each part
};

}  // namespace sweephand
