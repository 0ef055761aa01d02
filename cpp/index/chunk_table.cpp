#include "index/chunk_table.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

constexpr std::uint64_t kMaxTotal = std::numeric_limits<std::int64_t>::max();

// Throws std::invalid_argument when the sum passes 2^63 - 1 `things`.
std::uint64_t total_of(std::span<const std::uint64_t> counts, const char* things) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > kMaxTotal - total) {
      throw std::invalid_argument(std::string("a corpus may hold at most 2^63 - 1 ") + things +
                                  ", passed in chunk " + std::to_string(i));
    }
    total += counts[i];
  }
  return total;
}

// What every count but the last is; 0 if they differ.
std::uint64_t common_of(std::span<const std::uint64_t> counts) {
  if (counts.empty()) return 0;
  const auto all_but_last = counts.first(counts.size() - 1);
  const bool is_common =
      std::ranges::all_of(all_but_last, [&](auto count) { return count == counts[0]; });
  return is_common ? counts[0] : 0;
}

}  // namespace

GroupedCounts::GroupedCounts(std::span<const std::uint64_t> counts, const char* things)
    : num_counts_(counts.size()), total_(total_of(counts, things)), common_(common_of(counts)) {
  if (common_ != 0) return;
  std::uint64_t bits = 0;
  for (const std::uint64_t count : counts) bits |= count;
  if (bits <= std::numeric_limits<std::uint32_t>::max()) {
    narrow_.reserve(counts.size());
    for (const std::uint64_t count : counts)
      narrow_.push_back(static_cast<std::uint32_t>(count));
  } else {
    wide_.assign(counts.begin(), counts.end());
  }
  groups_.reserve(num_counts_ / kGroup + 1);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (i % kGroup == 0) groups_.push_back(sum);
    sum += counts[i];
  }
  if (counts.size() % kGroup == 0) groups_.push_back(sum);
}

std::uint64_t GroupedCounts::sum(std::uint64_t count) const noexcept {
  if (common_ != 0) return count < num_counts_ ? count * common_ : total_;
  std::uint64_t sum = groups_[count / kGroup];
  for (std::uint64_t i = count / kGroup * kGroup; i < count; ++i) sum += (*this)[i];
  return sum;
}

Starts::Starts(std::span<const std::uint64_t> counts, const char* things)
    : num_counts_(counts.size()), total_(total_of(counts, things)), common_(common_of(counts)) {
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
    : first_sequence_(chunk_sequences, "sequences"), samples_(chunk_samples, "samples") {
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
