// What there is: the chunks of a corpus, and the sequences and samples in each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// Counts laid one behind the other: where each begins. Where all but the last are equal,
// nothing is stored.
class Starts {
 public:
  // Throws std::invalid_argument when the sum passes 2^63 - 1 `things`.
  Starts(std::span<const std::uint64_t> counts, const char* things);

  std::uint64_t num_counts() const noexcept { return num_counts_; }
  std::uint64_t total() const noexcept { return total_; }

  // What every count but the last is; 0 if they differ.
  std::uint64_t common() const noexcept { return common_; }

  // Where count i begins; i may be num_counts().
  std::uint64_t operator[](std::uint64_t i) const noexcept {
    if (common_ != 0) return i < num_counts_ ? i * common_ : total_;
    return sums_[i];
  }

  // The last one that begins at or before `value`, so that empty ones, which share a start, are
  // passed. Logarithmic. REQUIRES: value < total()
  std::uint64_t last_at_or_before(std::uint64_t value) const noexcept;

 private:
  std::uint64_t num_counts_;
  std::uint64_t total_ = 0;
  std::uint64_t common_ = 0;
  std::vector<std::uint64_t> sums_;  // num_counts_ + 1 entries; none if there is a common count
};

// Counts that are mostly asked for one by one: in four bytes each where they fit, and where
// groups of them begin. Where all but the last are equal, nothing is stored.
class GroupedCounts {
 public:
  // Throws std::invalid_argument when the sum passes 2^63 - 1 `things`.
  GroupedCounts(std::span<const std::uint64_t> counts, const char* things);

  std::uint64_t total() const noexcept { return total_; }

  // What every count but the last is; 0 if they differ.
  std::uint64_t common() const noexcept { return common_; }

  // REQUIRES: there is an i-th one
  std::uint64_t operator[](std::uint64_t i) const noexcept {
    if (common_ != 0) return i + 1 < num_counts_ ? common_ : total_ - i * common_;
    return wide_.empty() ? narrow_[i] : wide_[i];
  }

  // The sum of the first `count` of them, which adds up those of a group. REQUIRES: there are
  // as many
  std::uint64_t sum(std::uint64_t count) const noexcept;

 private:
  static constexpr std::uint64_t kGroup = 32;

  std::uint64_t num_counts_;
  std::uint64_t total_ = 0;
  std::uint64_t common_ = 0;
  std::vector<std::uint32_t> narrow_;  // if they differ and all fit
  std::vector<std::uint64_t> wide_;    // if they differ and some do not
  std::vector<std::uint64_t> groups_;  // the sum of those before each group, if they differ
};

class ChunkTable {
 public:
  // Entry c of each span belongs to chunk c; a chunk may be empty.
  // Throws std::invalid_argument when the spans differ in length, when there is no sequence at
  // all, when a chunk has fewer samples than sequences, or when the totals pass 2^63 - 1.
  ChunkTable(std::span<const std::uint64_t> chunk_sequences,
             std::span<const std::uint64_t> chunk_samples);

  std::uint64_t num_chunks() const noexcept { return first_sequence_.num_counts(); }
  std::uint64_t num_sequences() const noexcept { return first_sequence_.total(); }
  std::uint64_t num_samples() const noexcept { return samples_.total(); }

  // Corpus-wide number of the chunk's first sequence; `chunk` may be num_chunks().
  std::uint64_t first_sequence(std::uint64_t chunk) const noexcept {
    return first_sequence_[chunk];
  }
  std::uint64_t sequences_in(std::uint64_t chunk) const noexcept {
    return first_sequence_[chunk + 1] - first_sequence_[chunk];
  }
  std::uint64_t samples_in(std::uint64_t chunk) const noexcept { return samples_[chunk]; }

  // The samples that every chunk but the last has; 0 if they differ.
  std::uint64_t common_samples() const noexcept { return samples_.common(); }

  // The samples of the chunks before this one; `chunk` may be num_chunks(). Adds up a few where
  // they differ.
  std::uint64_t first_sample(std::uint64_t chunk) const noexcept { return samples_.sum(chunk); }

  // The chunk that holds `sequence`. Logarithmic. REQUIRES: sequence < num_sequences()
  std::uint64_t chunk_of(std::uint64_t sequence) const noexcept {
    return first_sequence_.last_at_or_before(sequence);
  }

 private:
  Starts first_sequence_;
  GroupedCounts samples_;
};

}  // namespace sweephand
