// What tells one corpus from another: its sizes and its chunks, not where it lies.
#pragma once

#include "index/corpus.hpp"

#include <string>

namespace sweephand {

// Of the sizes of all sequences in storage order, however they are stored. Linear, or constant
// with a common size.
std::string fingerprint_sizes(const Corpus& corpus);

// Of the number of sequences and samples in every chunk.
std::string fingerprint_chunks(const ChunkTable& chunks);

}  // namespace sweephand
