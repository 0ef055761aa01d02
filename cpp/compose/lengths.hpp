// A plan of sequences whose lengths are in hand, dealt to workers in equal numbers of
// micro-batches.
#pragma once

#include "compose/pack.hpp"
#include "compose/plan.hpp"
#include "index/corpus.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

// Pieces of sequences, in the order of arrival. Rows are filled by cells, and cost by samples.
struct LengthPieces {
  std::span<const std::uint32_t> sequences;
  std::span<const std::uint32_t> firsts;  // sample of the sequence that the piece begins with
  std::span<const std::uint32_t> sizes;
  std::span<const std::uint32_t> cells;  // size at least
  std::span<const std::uint32_t> marks;  // a bit for each aligned item; empty: there are none
};

// Which pieces stay together, by small numbers; empty: each is alone.
struct Together {
  std::span<const std::uint32_t> group_of;
  bool in_row = false;  // else at one worker
};

// The cells that the pieces of a row take: each its own, or as many as the widest; or all are
// equally wide.
enum class Width : std::uint8_t { kOwn, kWidest, kEqual };

// How rows of at most row_length cells are filled. A row of padded pieces is a micro-batch.
struct RowRule {
  std::uint32_t row_length = 0;
  std::uint64_t look_ahead = 1;  // of pieces that follow each other
  bool keeps_order = false;      // a row is opened by the oldest, else by the longest
  Width width = Width::kOwn;
};

// How rows are dealt.
struct DealRule {
  std::uint32_t num_workers = 1;
  std::uint32_t micro_batch_rows = 1;
  std::optional<Cost> balance;  // without it, row j is worker j mod K's
  // Where it is not 0, rows are left over until their number is a multiple of it, and at most
  // most_rows: those with the fewest cells first, of equals the last.
  std::uint64_t whole_rows = 0;
  std::uint64_t most_rows = 0;
};

// Rows of several workers.
struct WorkerRows {
  Rows rows;
  std::vector<std::uint32_t> marks;  // of each row
  std::vector<uint128> costs;        // of each row
  std::vector<std::uint32_t> left;   // pieces that are left over, ascending
  // Of each worker: slots of micro-batches that are all workers', and the rows that follow.
  std::vector<std::vector<std::uint32_t>> common;
  std::vector<std::vector<std::uint32_t>> others;
  DealRule rule;

  std::uint32_t num_micro_batches() const;  // that hold the rows of any worker
};

// Unless rows may be left over, every worker has a row while there are pieces, or groups,
// enough, and as many rows of equal marks as other workers need micro-batches for them, while
// these can be divided. REQUIRES: 1 <= cells <= row_length, of a group that stays in a row,
// too, and the same of loads; num_workers and micro_batch_rows >= 1; nothing is left over of
// groups at one worker, or of marked pieces
WorkerRows rows_of_workers(const LengthPieces& pieces, const Together& together,
                           const RowRule& rule, std::span<const Load> loads,
                           const DealRule& dealing);

// Where pieces go, worker after worker, in the order in which they are laid down.
struct LaidPieces {
  std::vector<std::uint32_t> pieces;
  std::vector<std::uint32_t> ends;  // of each slot for a row, in `pieces`
  std::vector<double> loads;        // of each micro-batch, worker after worker
};

// Every worker gets `num_micro_batches`. Those of marked rows come first, as many of equal
// marks as every worker has. These, and with a balance all, cost nearly the same, the costliest
// first; other rows stay in order. Slots without a row come last. REQUIRES: num_micro_batches
// >= workers.num_micro_batches()
LaidPieces lay(const WorkerRows& workers, std::uint32_t num_micro_batches);

// Pieces of the sequences of a corpus, as the engine carries them out. `cells` has the row and
// the column of each; none in a layout without rows.
struct PlacedPieces {
  std::vector<std::uint64_t> sequences;
  std::vector<std::uint32_t> firsts;
  std::vector<std::uint32_t> sizes;
  std::vector<std::uint32_t> wholes;  // samples of the whole sequence
  std::vector<std::uint32_t> cells;
};
PieceCount count_pieces(const PlacedPieces& pieces, const LossMasks* masks);
Plan plan_of(const PlacedPieces& pieces, const Request& request, const PieceCount& counted,
             std::uint32_t num_rows, std::uint32_t row_length, std::uint64_t global_rows);

}  // namespace sweephand
