// Visits all sizes of a corpus in storage order, without holding them all.
#pragma once

#include "index/corpus.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// Calls visit(first, sizes) for runs of sequences, `first` being the number of the first of
// them.
template <class Visit>
void walk_sizes(const Corpus& corpus, const Visit& visit) {
  constexpr std::uint64_t kRun = std::uint64_t{1} << 16;
  const std::uint64_t count = corpus.chunks.num_sequences();
  std::vector<std::uint32_t> buffer(std::min(kRun, count));
  for (std::uint64_t first = 0; first < count; first += kRun) {
    const std::span sizes = std::span(buffer).first(std::min(kRun, count - first));
    corpus.sizes->read(first, sizes);
    visit(first, std::span<const std::uint32_t>(sizes));
  }
}

}  // namespace sweephand
