#include "index/long_sequences.hpp"

#include "index/walk_sizes.hpp"

namespace sweephand {

LongSequences find_long(const Corpus& corpus, std::uint32_t limit) {
  LongSequences found;
  if (const std::uint32_t common = corpus.sizes->common(); common != 0) {
    if (common <= limit) return found;
    return {.num_sequences = corpus.chunks.num_sequences(),
            .num_samples = corpus.chunks.num_samples(),
            .size = common};
  }
  walk_sizes(corpus, [&](std::uint64_t first, std::span<const std::uint32_t> sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] <= limit) continue;
      ++found.num_sequences;
      found.num_samples += sizes[i];
      if (sizes[i] <= found.size) continue;
      found.size = sizes[i];
      found.sequence = first + i;
    }
  });
  return found;
}

}  // namespace sweephand
