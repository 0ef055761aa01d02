// Sequences cut into the pieces that rows are joined of, and the rows of a pack.
#pragma once

#include "compose/pack.hpp"
#include "compose/part.hpp"
#include "order/block.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

// The part of a sequence in one row; mostly the whole.
struct Piece {
  std::uint64_t sequence : 47;
  std::uint64_t sweep : 16;   // as of a planned sequence
  std::uint64_t goes_on : 1;  // 1: the sequence has more samples behind the piece
  std::uint32_t first;        // sample of the sequence
  std::uint32_t size;
};

// Sequences that are joined into rows separately, and these rows, which cover the span of the
// sequences without a gap: a row starts where its predecessor ends.
struct Pack {
  std::uint64_t num_rows() const noexcept { return ends.size() - 1; }
  std::span<const Piece> row(std::uint64_t row) const noexcept {
    return std::span(pieces).subspan(ends[row], ends[row + 1] - ends[row]);
  }

  // The row that starts at `start`. Throws StaleError if none does: sizes that are read again
  // must not have changed. Logarithmic.
  std::uint64_t row_at(std::uint64_t start) const;

  // Where a sequence of a sweep begins. Linear. Throws StaleError if it is not here.
  struct Place {
    std::uint64_t row = 0;
    std::uint64_t column = 0;
  };
  Place find(std::uint64_t sequence, std::uint16_t sweep) const;

  std::vector<Piece> pieces;          // row after row
  std::vector<std::uint64_t> ends;    // entry row + 1: where the row ends in `pieces`
  std::vector<std::uint64_t> starts;  // of each row, as its maker counts, and the end
  BlockUses blocks;                   // by row
};

[[noreturn]] void refuse_changed_sizes();

// The pieces of a pack in the order of its list.
class Pieces {
 public:
  explicit Pieces(const Packing& packing) : packing_(packing), counts_(packing.limits.size()) {}

  void reserve(std::uint64_t num_sequences);

  // Sequences added from now on name it by the number of blocks before it.
  void add(std::shared_ptr<const Block> block) { blocks_.push_back(std::move(block)); }

  // Throws std::invalid_argument for a sequence that is too long.
  void add(const PlannedSequence& planned, std::uint32_t block);

  std::span<const std::uint32_t> sizes() const { return sizes_; }

  // The rows in the order in which they are opened, the first row at `start`. Once.
  std::unique_ptr<Pack> in_order(std::uint64_t start);

  // The rows of a mixture, of whose corpora these are the first sequences, and the end. Once.
  std::unique_ptr<Pack> of_mixture(std::span<const std::uint64_t> first_sequences,
                                   std::uint64_t start);

  // The rows longest first, then shuffled by `key`. Once.
  std::unique_ptr<Pack> shuffled(std::uint64_t key, std::uint64_t start);

 private:
  std::vector<Load> loads() const;
  std::unique_ptr<Pack> lay_in_order(const Rows& rows, std::uint64_t start);
  std::unique_ptr<Pack> lay(const Rows& rows, std::span<const std::uint64_t> order,
                            std::uint64_t start);

  const Packing& packing_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> sizes_;
  std::vector<std::vector<std::uint32_t>> counts_;  // of each limit
  std::vector<std::uint32_t> block_of_;
  std::vector<std::shared_ptr<const Block>> blocks_;
};

}  // namespace sweephand
