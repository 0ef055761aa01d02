#include "index/chunk_table.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

constexpr std::uint64_t kMaxTotal = std::numeric_limits<std::int64_t>::max();

}  // namespace

Starts::Starts(std::span<const std::uint64_t> counts, const char* things)
    : num_counts_(counts.size()) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > kMaxTotal - total_) {
      throw std::invalid_argument(std::string("a corpus may hold at most 2^63 - 1 ") + things +
                                  ", passed in chunk " + std::to_string(i));
    }
    total_ += counts[i];
  }
  if (counts.empty()) return;
  const auto all_but_last = counts.first(counts.size() - 1);
  if (std::ranges::all_of(all_but_last, [&](auto count) { return count == counts[0]; })) {
    common_ = counts[0];
  }
  if (common_ != 0) return;
  sums_.reserve(counts.size() + 1);
  sums_.push_back(0);
  for (const std::uint64_t count : counts) sums_.push_back(sums_.back() + count);
}

std::uint64_t Starts::last_at_or_before(std::uint64_t value) const noexcept {
  if (common_ != 0) return std::min(value / common_, num_counts_ - 1);
  const auto after = std::upper_bound(sums_.begin(), sums_.end(), value);
  return static_cast<std::uint64_t>(after - sums_.begin()) - 1;
}

ChunkTable::ChunkTable(std::span<const std::uint64_t> chunk_sequences,
                       std::span<const std::uint64_t> chunk_samples)
    : first_sequence_(chunk_sequences, "sequences"), first_sample_(chunk_samples, "samples") {
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
}

}  // namespace sweephand
