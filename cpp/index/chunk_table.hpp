// The chunks of a corpus, and the sequences and samples in each.
#pragma once

#include "index/counts.hpp"

#include <cstdint>
#include <span>

namespace sweephand {

class ChunkTable {
 public:
  // Entry c of each span belongs to chunk c; a chunk may be empty.
  // Throws std::invalid_argument when the spans differ in length, when there is no sequence at
  // all, when a chunk has fewer samples than sequences, or when the totals pass 2^63 - 1.
  ChunkTable(std::span<const std::uint64_t> chunk_sequences,
             std::span<const std::uint64_t> chunk_samples);
  ChunkTable(Starts sequences, Starts samples);

  std::uint64_t num_chunks() const noexcept { return first_sequence_.num_counts(); }
  std::uint64_t num_sequences() const noexcept { return first_sequence_.total(); }
  std::uint64_t num_samples() const noexcept { return samples_.total(); }

  const Starts& first_sequences() const noexcept { return first_sequence_; }

  // Corpus-wide number of the chunk's first sequence; `chunk` may be num_chunks().
  std::uint64_t first_sequence(std::uint64_t chunk) const noexcept {
    return first_sequence_[chunk];
  }
  std::uint64_t sequences_in(std::uint64_t chunk) const noexcept {
    return first_sequence_.count(chunk);
  }
  std::uint64_t samples_in(std::uint64_t chunk) const noexcept { return samples_.count(chunk); }

  // A look at every chunk of so many meets all that differ: each, or the first and the last.
  std::uint64_t step_of_different() const noexcept;

  // The samples that every chunk but the last has; 0 if they differ.
  std::uint64_t common_samples() const noexcept { return samples_.common(); }

  // The samples of the chunks before this one; `chunk` may be num_chunks().
  std::uint64_t first_sample(std::uint64_t chunk) const noexcept { return samples_[chunk]; }

  // The chunk that holds `sequence`. Logarithmic. REQUIRES: sequence < num_sequences()
  std::uint64_t chunk_of(std::uint64_t sequence) const noexcept {
    return first_sequence_.last_at_or_before(sequence);
  }

 private:
  Starts first_sequence_;
  Starts samples_;
};

}  // namespace sweephand
