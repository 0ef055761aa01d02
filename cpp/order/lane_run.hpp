// What a lane has in a span of its sweep, before it is merged with others.
#pragma once

#include "order/block.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace sweephand {

// Neighbouring sequences of a lane in one block.
struct LaneRun {
  std::shared_ptr<const Block> block;
  std::uint64_t block_index;
  std::uint64_t place;   // in the block, of the first
  std::uint64_t count;   // at least 1
  std::uint64_t offset;  // of the first, in samples from the lane's cut
  std::uint64_t samples;
  std::uint16_t lane;
};

// Of two sequences of a sweep that with the lesser key comes first.
struct KeyedSequence {
  std::uint64_t key;  // offset and lane; below 2^63
  PlannedSequence sequence;
};

// Adds the sequences of a run. Linear.
void add_sequences(const LaneRun& run, std::vector<KeyedSequence>& sequences);

}  // namespace sweephand
