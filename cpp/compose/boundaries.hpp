// Bucket boundaries that cost least: docs/layouts.md, section 5.
#pragma once

#include "index/corpus.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// How many sequences have a size.
struct SizeCount {
  std::uint32_t size;
  std::uint64_t count;
};

// The sizes that occur, ascending. Linear, but for sorting the large ones.
std::vector<SizeCount> count_sizes(const Corpus& corpus);

// The `num_buckets` boundaries, or fewer if there are fewer sizes, for which the cells of all
// sequences padded to their boundary are fewest; among equals each is the smallest, from the
// last one down. Takes num_buckets * n * log(n) steps and 4 * num_buckets * n bytes for n
// sizes. REQUIRES: sizes ascend strictly, fewer than 2^32 of them; there is one; num_buckets >=
// 1
std::vector<std::uint32_t> best_boundaries(std::span<const SizeCount> sizes,
                                           std::uint32_t num_buckets);

// The cells of all sequences padded to the smallest boundary that holds them. REQUIRES: the
// last boundary holds every size
std::uint64_t padded_cells(std::span<const SizeCount> sizes,
                           std::span<const std::uint32_t> boundaries);

}  // namespace sweephand
