// Sequences that are longer than a layout can use.
#pragma once

#include "index/corpus.hpp"

#include <cstdint>

namespace sweephand {

struct LongSequences {
  std::uint64_t num_sequences = 0;
  std::uint64_t num_samples = 0;
  std::uint32_t size = 0;      // of the longest one
  std::uint64_t sequence = 0;  // its number; the first among equals
};

// The sequences of more than `limit` samples. Linear, but constant with a common size; chunks
// too small to hold one are not looked into.
LongSequences find_long(const Corpus& corpus, std::uint32_t limit);

}  // namespace sweephand
