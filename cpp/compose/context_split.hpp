// Packed rows cut over the ranks that share the context of a micro-batch: docs/layouts.md,
// section 12.
#pragma once

#include "compose/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// Consecutive cells [begin, end) of the concatenated rows that one rank has. They are of one
// sequence, or of the padding of one row, which begins at cell `from`: attention reads [from,
// end).
struct ContextRun {
  std::uint64_t from = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::int64_t sequence = 0;  // its number in the share; -1 is padding
};

// Every rank gets the same number of cells of every row. Cut are whole rows, or sequences of
// enough samples: whichever is even enough with the longest pieces.
class ContextSplit {
 public:
  // Linear in sequences times ranks. Throws std::invalid_argument if the plan has no rows whose
  // length is a multiple of 2 * num_ranks. REQUIRES: num_ranks >= 1
  ContextSplit(const Plan& plan, std::uint32_t num_ranks, Cost cost);

  // Samples of the shortest piece of a sequence that is cut; 0 if whole rows are.
  std::uint32_t least_piece() const noexcept { return least_piece_; }

  // The cost of attention for every rank.
  const std::vector<std::uint64_t>& costs() const noexcept { return costs_; }

  // The runs of a rank, in the order of the rows. REQUIRES: rank < num_ranks
  std::vector<ContextRun> runs(std::uint32_t rank) const;

 private:
  // The consecutive pieces of a row: its sequences, and its padding.
  struct Segment {
    std::uint64_t begin;
    std::uint64_t size;
    std::int64_t sequence;
  };

  void add_row(std::uint64_t row, std::size_t& next, const Plan& plan);
  template <class Give>
  void cut(std::uint32_t least_piece, const Give& give) const;
  template <class Give>
  void cut_row(std::span<const Segment> row, const Give& give) const;
  template <class Give>
  void cut_segments(std::span<const Segment> row, std::uint32_t least_piece,
                    const Give& give) const;
  template <class Give>
  void cut_segment(const Segment& segment, std::uint64_t first, const Give& give) const;
  std::vector<std::uint64_t> costs_of(std::uint32_t least_piece) const;

  std::uint32_t num_ranks_;
  std::uint64_t row_length_;
  Cost cost_;
  std::vector<Segment> segments_;
  std::vector<std::size_t> row_ends_;  // in `segments_`
  std::uint32_t least_piece_ = 0;
  std::vector<std::uint64_t> costs_;
};

// Of each run four numbers: from, begin, end, sequence.
std::vector<std::int64_t> run_table(const std::vector<ContextRun>& runs);

}  // namespace sweephand
