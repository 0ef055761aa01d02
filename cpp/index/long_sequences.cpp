#include "index/long_sequences.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace sweephand {
namespace {

constexpr std::uint64_t kRun = std::uint64_t{1} << 16;

// Every sequence has at least one sample, which bounds the longest of a chunk.
bool may_hold(const ChunkTable& chunks, std::uint64_t chunk, std::uint32_t limit) {
  const std::uint64_t count = chunks.sequences_in(chunk);
  return count != 0 && chunks.samples_in(chunk) - (count - 1) > limit;
}

// Calls visit(first, sizes) for runs of the sequences of chunks that may hold a sequence above
// `limit`: sizes that are not in memory are not read in vain.
template <class Visit>
void walk_chunks(const Corpus& corpus, std::uint32_t limit, const Visit& visit) {
  const ChunkTable& chunks = corpus.chunks;
  std::vector<std::uint32_t> buffer(std::min(kRun, chunks.num_sequences()));
  for (std::uint64_t chunk = 0; chunk < chunks.num_chunks(); ++chunk) {
    if (!may_hold(chunks, chunk, limit)) continue;
    std::uint64_t first = chunks.first_sequence(chunk);
    while (chunk + 1 < chunks.num_chunks() && may_hold(chunks, chunk + 1, limit)) ++chunk;
    const std::uint64_t end = chunks.first_sequence(chunk + 1);
    while (first < end) {
      const std::span sizes = std::span(buffer).first(std::min(kRun, end - first));
      corpus.sizes->read(first, sizes);
      visit(first, std::span<const std::uint32_t>(sizes));
      first += sizes.size();
    }
  }
}

}  // namespace

LongSequences find_long(const Corpus& corpus, std::uint32_t limit) {
  LongSequences found;
  if (const std::uint32_t common = corpus.sizes->common(); common != 0) {
    if (common <= limit) return found;
    return {.num_sequences = corpus.chunks.num_sequences(),
            .num_samples = corpus.chunks.num_samples(),
            .size = common};
  }
  walk_chunks(corpus, limit, [&](std::uint64_t first, std::span<const std::uint32_t> sizes) {
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
