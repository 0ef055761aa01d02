#include "index/chunk_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {

ChunkTable::ChunkTable(std::span<const std::uint64_t> chunk_sequences,
                       std::span<const std::uint64_t> chunk_samples)
    : ChunkTable(Starts(chunk_sequences, "sequences"), Starts(chunk_samples, "samples")) {}

ChunkTable::ChunkTable(Starts sequences, Starts samples)
    : first_sequence_(std::move(sequences)), samples_(std::move(samples)) {
  if (num_chunks() != samples_.num_counts()) {
    throw std::invalid_argument("sequences are given for " + std::to_string(num_chunks()) +
                                " chunks, samples for " +
                                std::to_string(samples_.num_counts()));
  }
  for (std::uint64_t c = 0; c < num_chunks(); c += step_of_different()) {
    if (samples_in(c) < sequences_in(c) || (sequences_in(c) == 0 && samples_in(c) != 0)) {
      throw std::invalid_argument("chunk " + std::to_string(c) + " has " +
                                  std::to_string(sequences_in(c)) + " sequences and " +
                                  std::to_string(samples_in(c)) +
                                  " samples; every sequence has at least one sample");
    }
  }
  if (num_sequences() == 0) throw std::invalid_argument("the corpus is empty: no sequences");
}

std::uint64_t ChunkTable::step_of_different() const noexcept {
  const bool are_equal = first_sequence_.common() != 0 && samples_.common() != 0;
  return are_equal ? std::max<std::uint64_t>(2, num_chunks()) - 1 : 1;
}

}  // namespace sweephand
