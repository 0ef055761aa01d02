#include "compose/context_split.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

// Kernels work in tiles of about 128 samples, so shorter pieces are tried later.
constexpr std::array<std::uint32_t, 4> kLeastPieces = {0, 128, 16, 1};

// A row in 2 * num_ranks pieces, of which rank r has pieces r and 2 * num_ranks - 1 - r: the
// cost of attention grows along a sequence, so a cheap piece goes with a costly one.
std::uint32_t rank_of(std::uint32_t piece, std::uint32_t num_ranks) {
  return std::min(piece, 2 * num_ranks - 1 - piece);
}

// The room of the ranks; the first `remainder` in turn have one cell less.
class Room {
 public:
  Room(std::uint32_t num_ranks, std::uint64_t each, std::uint64_t remainder)
      : most_(each - remainder / num_ranks), fewer_(remainder % num_ranks), left_(room_of(0)) {}

  // The rank that is filled, and how many cells it takes.
  std::pair<std::uint32_t, std::uint64_t> take(std::uint64_t wanted) {
    while (left_ == 0) left_ = room_of(++rank_);
    const std::uint64_t count = std::min(wanted, left_);
    left_ -= count;
    return {rank_, count};
  }

 private:
  std::uint64_t room_of(std::uint32_t rank) const { return most_ - (rank < fewer_ ? 1 : 0); }

  std::uint64_t most_;
  std::uint64_t fewer_;  // ranks with one less
  std::uint32_t rank_ = 0;
  std::uint64_t left_;
};

}  // namespace

ContextSplit::ContextSplit(const Plan& plan, std::uint32_t num_ranks, Cost cost)
    : num_ranks_(num_ranks), row_length_(plan.row_length), cost_(cost) {
  if (row_length_ == 0 || row_length_ % (2 * std::uint64_t{num_ranks}) != 0) {
    throw std::invalid_argument("rows over " + std::to_string(num_ranks) +
                                " ranks must have a multiple of " +
                                std::to_string(2 * std::uint64_t{num_ranks}) + " cells, got " +
                                std::to_string(row_length_));
  }
  std::size_t next = 0;
  for (std::uint32_t row = 0; row < plan.num_rows; ++row) add_row(row, next, plan);
  uint128 lowest = ~uint128{0};
  for (const std::uint32_t least : kLeastPieces) {
    std::vector<std::uint64_t> costs = costs_of(least);
    uint128 total = 0;
    for (const std::uint64_t one : costs) total += one;
    const uint128 most = *std::ranges::max_element(costs);
    if (most < lowest) {
      lowest = most;
      least_piece_ = least;
      costs_ = std::move(costs);
    }
    if (most * num_ranks * 128 <= total * 129) return;
  }
}

void ContextSplit::add_row(std::uint64_t row, std::size_t& next, const Plan& plan) {
  std::uint64_t cell = row * row_length_;
  const std::uint64_t end = cell + row_length_;
  for (; next < plan.cells.size() && plan.cells[next].row == row; ++next) {
    const std::uint64_t size = plan.share[next].size;
    segments_.push_back({cell, size, static_cast<std::int64_t>(next)});
    cell += size;
  }
  if (cell < end) segments_.push_back({cell, end - cell, -1});
  row_ends_.push_back(segments_.size());
}

// Calls give(rank, segment, begin, end), with places in the segment, along the rows.
template <class Give>
void ContextSplit::cut(std::uint32_t least_piece, const Give& give) const {
  for (std::size_t begin = 0; const std::size_t end : row_ends_) {
    const std::span row = std::span(segments_).subspan(begin, end - begin);
    least_piece == 0 ? cut_row(row, give) : cut_segments(row, least_piece, give);
    begin = end;
  }
}

template <class Give>
void ContextSplit::cut_row(std::span<const Segment> row, const Give& give) const {
  const std::uint64_t piece_cells = row_length_ / num_ranks_ / 2;
  std::uint64_t cell = 0;  // of the row
  for (const Segment& segment : row) {
    for (std::uint64_t at = 0; at < segment.size;) {
      const std::uint64_t piece = cell / piece_cells;
      const std::uint64_t end = std::min(segment.size, at + (piece + 1) * piece_cells - cell);
      give(rank_of(static_cast<std::uint32_t>(piece), num_ranks_), segment, at, end);
      cell += end - at;
      at = end;
    }
  }
}

// Sequences too short to be cut fill the ranks up in turn.
template <class Give>
void ContextSplit::cut_segments(std::span<const Segment> row, std::uint32_t least_piece,
                                const Give& give) const {
  const std::uint64_t pieces = 2 * std::uint64_t{num_ranks_};
  const auto is_cut = [&](const Segment& segment) {
    return segment.size >= pieces * least_piece;
  };
  // Remainders of divisions go from rank to rank, so that numbers of samples differ by at most
  // one.
  std::uint64_t remainder = 0;
  std::uint64_t each = row_length_ / num_ranks_;  // cells left
  for (const Segment& segment : row) {
    if (!is_cut(segment)) continue;
    each -= 2 * (segment.size / pieces);
    remainder += segment.size % pieces;
  }
  Room room(num_ranks_, each, remainder);
  std::uint64_t dealt = 0;  // of the remainder
  for (const Segment& segment : row) {
    if (is_cut(segment)) {
      cut_segment(segment, dealt % num_ranks_, give);
      dealt += segment.size % pieces;
      continue;
    }
    for (std::uint64_t at = 0; at < segment.size;) {
      const auto [rank, count] = room.take(segment.size - at);
      give(rank, segment, at, at + count);
      at += count;
    }
  }
}

// `first` is the rank that is next to get a cell of the remainder.
template <class Give>
void ContextSplit::cut_segment(const Segment& segment, std::uint64_t first,
                               const Give& give) const {
  const std::uint32_t pieces = 2 * num_ranks_;
  const std::uint64_t rest = segment.size % pieces;
  std::uint64_t at = 0;
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    const std::uint32_t rank = rank_of(piece, num_ranks_);
    // A rank's second turn comes with its second piece.
    const std::uint64_t turn = (rank < first ? rank + num_ranks_ : rank) - first +
                               (piece < num_ranks_ ? 0 : num_ranks_);
    const std::uint64_t end = at + segment.size / pieces + (turn < rest ? 1 : 0);
    if (end != at) give(rank, segment, at, end);
    at = end;
  }
}

// A share has less than 2^31 cells, so its cost fits 64 bits.
std::vector<std::uint64_t> ContextSplit::costs_of(std::uint32_t least_piece) const {
  std::vector<std::uint64_t> costs(num_ranks_);
  const auto cost_until = [&](std::uint64_t sample) {
    return static_cast<std::uint64_t>(cost_(static_cast<std::uint32_t>(sample)));
  };
  cut(least_piece,
      [&](std::uint32_t rank, const Segment& segment, std::uint64_t begin, std::uint64_t end) {
        if (segment.sequence >= 0) costs[rank] += cost_until(end) - cost_until(begin);
      });
  return costs;
}

std::vector<ContextRun> ContextSplit::runs(std::uint32_t rank) const {
  std::vector<ContextRun> runs;
  cut(least_piece_,
      [&](std::uint32_t who, const Segment& segment, std::uint64_t begin, std::uint64_t end) {
        if (who != rank) return;
        const ContextRun run{segment.begin, segment.begin + begin, segment.begin + end,
                             segment.sequence};
        if (!runs.empty() && runs.back().end == run.begin && runs.back().from == run.from) {
          runs.back().end = run.end;  // the two pieces in the middle are one
        } else {
          runs.push_back(run);
        }
      });
  return runs;
}

std::vector<std::int64_t> run_table(const std::vector<ContextRun>& runs) {
  std::vector<std::int64_t> table;
  table.reserve(4 * runs.size());
  for (const ContextRun& run : runs) {
    table.insert(table.end(),
                 {static_cast<std::int64_t>(run.from), static_cast<std::int64_t>(run.begin),
                  static_cast<std::int64_t>(run.end), run.sequence});
  }
  return table;
}

}  // namespace sweephand
