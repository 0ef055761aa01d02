// Places in the list of a sweep.
#pragma once

#include "order/block.hpp"
#include "order/dealt_list.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sweephand {

// A place in the list, and the samples of the sweep's list before it.
struct ListPlace {
  std::uint64_t block;
  std::uint64_t place;  // in the block
  std::uint64_t start;
};

// Neighbouring sequences of a block, in the order of the list: its known part around the place
// of a lane. A search returns to nearby places, and reading on begins with these.
struct ListRun {
  static constexpr std::size_t kBefore = 4;  // the place that was looked for
  static constexpr std::size_t kMost = 16;

  ListPlace first{};
  std::uint64_t end = 0;         // of the last one, in the list
  std::uint64_t num_places = 0;  // of the block
  std::uint32_t count = 0;       // 0: nothing is known
  std::array<PlannedSequence, kMost> sequences;

  // Whether the first sequence that starts at or after `sample` is in the run, or begins where
  // it ends.
  bool covers(std::uint64_t sample) const noexcept {
    return count != 0 && first.start <= sample && sample <= end;
  }

  // How many of them start before `sample`, and the start of the next. REQUIRES: covers
  BlockPlace find(std::uint64_t sample) const noexcept {
    BlockPlace found{.place = 0, .start = first.start};
    while (found.start < sample) found.start += sequences[found.place++].size;
    return found;
  }
};

// A place of a lane, and the known sequences there: some or none of its block; and its list, if
// that was dealt and not released.
struct LanePlace {
  ListPlace at;
  std::span<const PlannedSequence> known;
  DealtList list;
};

}  // namespace sweephand
