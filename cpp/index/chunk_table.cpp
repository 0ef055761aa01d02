#include "index/chunk_table.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

constexpr std::uint64_t kMaxTotal = std::numeric_limits<std::int64_t>::max();

std::vector<std::uint64_t> prefix_sums(std::span<const std::uint64_t> counts,
                                       const char* what) {
  std::vector<std::uint64_t> sums(counts.size() + 1);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > kMaxTotal - sums[i]) {
      throw std::invalid_argument(std::string("a corpus may hold at most 2^63 - 1 ") + what +
                                  ", passed in chunk " + std::to_string(i));
    }
    sums[i + 1] = sums[i] + counts[i];
  }
  return sums;
}

}  // namespace

ChunkTable::ChunkTable(std::span<const std::uint64_t> chunk_sequences,
                       std::span<const std::uint64_t> chunk_samples)
    : first_sequence_(prefix_sums(chunk_sequences, "sequences")),
      first_sample_(prefix_sums(chunk_samples, "samples")) {
  if (chunk_sequences.size() != chunk_samples.size()) {
    throw std::invalid_argument("sequences are given for " +
                                std::to_string(chunk_sequences.size()) +
                                " chunks, samples for " + std::to_string(chunk_samples.size()));
  }
  for (std::size_t c = 0; c < chunk_sequences.size(); ++c) {
    if (chunk_samples[c] < chunk_sequences[c] ||
        (chunk_sequences[c] == 0 && chunk_samples[c] != 0)) {
      throw std::invalid_argument("chunk " + std::to_string(c) + " has " +
                                  std::to_string(chunk_sequences[c]) + " sequences and " +
                                  std::to_string(chunk_samples[c]) +
                                  " samples; every sequence has at least one sample");
    }
  }
  if (num_sequences() == 0) throw std::invalid_argument("the corpus is empty: no sequences");
  const auto all_but_last = chunk_samples.first(chunk_samples.size() - 1);
  const std::uint64_t first = chunk_samples[0];
  if (std::ranges::all_of(all_but_last, [&](auto samples) { return samples == first; })) {
    common_samples_ = first;
  }
}

std::uint64_t ChunkTable::chunk_of(std::uint64_t sequence) const noexcept {
  // The last chunk that starts at or before `sequence`: empty chunks share a start and are
  // passed.
  const auto after = std::upper_bound(first_sequence_.begin(), first_sequence_.end(), sequence);
  return static_cast<std::uint64_t>(after - first_sequence_.begin()) - 1;
}

}  // namespace sweephand
