// The places of the chunks of text files, in few bytes each, as there may be millions.
#pragma once

#include "index/starts.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// A run of sequences of one file.
struct CtfPiece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_line = 0;  // from 0
  std::uint64_t num_sequences = 0;
  std::uint32_t file = 0;       // its number
  std::uint32_t num_items = 0;  // errors that were charged when the index was made
};

// Pieces in the order of their sequences, and the chunks that they make.
class CtfPieces {
 public:
  // One entry per piece, as in CtfPiece; no items: none anywhere.
  struct Columns {
    std::span<const std::uint64_t> files, begins, ends, first_lines, num_sequences, num_items;
  };

  // Pieces that follow each other share a chunk while they have at most `most_bytes`. Throws
  // std::invalid_argument when columns differ in length, or an entry cannot be.
  CtfPieces(const Columns& columns, std::uint64_t most_bytes);

  // Every piece is a chunk.
  explicit CtfPieces(std::vector<CtfPiece> pieces);

  std::uint64_t num_chunks() const noexcept { return chunks_.num_counts(); }
  std::span<const CtfPiece> all() const noexcept { return pieces_; }

  // Those of a chunk. Throws std::out_of_range.
  std::span<const CtfPiece> of(std::uint64_t chunk) const;

  // The first sequence of every chunk.
  Starts sequences() const;

 private:
  std::vector<CtfPiece> pieces_;
  Starts chunks_;  // where each begins among the pieces
};

}  // namespace sweephand
