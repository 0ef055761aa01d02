// The identity of a corpus: its sizes and its chunks, not its location.
#pragma once

#include "index/corpus.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

// Of the sizes of all sequences in storage order, however they are stored. Linear, or constant
// with a common size.
std::string fingerprint_sizes(const Corpus& corpus);

// Of the number of sequences and samples in every chunk.
std::string fingerprint_chunks(const ChunkTable& chunks);

// Of runs of sizes, given where each begins and the end: one key each, 0 of an empty one.
// REQUIRES: `starts` do not descend, and end with the sizes
std::vector<std::uint64_t> fingerprint_runs(std::span<const std::int64_t> sizes,
                                            std::span<const std::int64_t> starts);

}  // namespace sweephand
