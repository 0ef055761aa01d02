// What there is: the chunks of a corpus, and the sequences and samples in each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

class ChunkTable {
 public:
  // Entry c of each span belongs to chunk c; a chunk may be empty.
  // Throws std::invalid_argument when the spans differ in length, when there is no sequence at
  // all, when a chunk has fewer samples than sequences, or when the totals pass 2^63 - 1.
  ChunkTable(std::span<const std::uint64_t> chunk_sequences,
             std::span<const std::uint64_t> chunk_samples);

  std::uint64_t num_chunks() const noexcept { return first_sequence_.size() - 1; }
  std::uint64_t num_sequences() const noexcept { return first_sequence_.back(); }
  std::uint64_t num_samples() const noexcept { return first_sample_.back(); }

  // Corpus-wide number of the chunk's first sequence; `chunk` may be num_chunks().
  std::uint64_t first_sequence(std::uint64_t chunk) const noexcept {
    return first_sequence_[chunk];
  }
  std::uint64_t sequences_in(std::uint64_t chunk) const noexcept {
    return first_sequence_[chunk + 1] - first_sequence_[chunk];
  }
  std::uint64_t samples_in(std::uint64_t chunk) const noexcept {
    return first_sample_[chunk + 1] - first_sample_[chunk];
  }

  // The samples that every chunk but the last has; 0 if they differ.
  std::uint64_t common_samples() const noexcept { return common_samples_; }

  // The chunk that holds `sequence`. Logarithmic. REQUIRES: sequence < num_sequences()
  std::uint64_t chunk_of(std::uint64_t sequence) const noexcept;

 private:
  std::vector<std::uint64_t> first_sequence_;  // prefix sums, num_chunks + 1 entries
  std::vector<std::uint64_t> first_sample_;
  std::uint64_t common_samples_ = 0;
};

}  // namespace sweephand
