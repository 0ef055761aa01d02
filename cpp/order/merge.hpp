// Brings sequences of many lanes into key order.
#pragma once

#include "order/block.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// A counting sort by offset, which takes a few ns a sequence for any number of lanes: a
// tournament of lanes takes a comparison per doubling, and waits for each.
class Merge {
 public:
  std::size_t size() const noexcept { return count_; }

  // Adds the first of `sequences`, those of one lane, that begin at offsets below `end`, and
  // returns how many. They are at `place` of the input of sort, before those of later lanes.
  // `offset` is that of the first one, and becomes that of the next.
  std::size_t add(std::span<const PlannedSequence> sequences, std::size_t place,
                  std::uint64_t& offset, std::uint64_t begin, std::uint64_t end);

  // All in the order of (offset, lane); empties itself. Linear, but where many begin together.
  void sort(std::span<const PlannedSequence> from, std::vector<PlannedSequence>& sorted);

 private:
  void reserve(std::size_t count);
  void deal();

  // Offset in the high half, place in the low one: of equal offsets the earlier lane comes
  // first.
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint64_t> sorted_;
  std::size_t count_ = 0;
  std::vector<std::uint32_t> ends_;  // of the keys that share the high bits of their offset
};

}  // namespace sweephand
