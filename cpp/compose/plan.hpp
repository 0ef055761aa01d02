// The plan of a minibatch and of one worker's share: numbers only, nothing read.
#pragma once

#include "base/mix.hpp"
#include "index/sizes.hpp"
#include "order/block.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

// The cost of every item of a carried stream.
struct ItemCost {
  std::shared_ptr<const Sizes> counts;  // items of every sequence of the corpus
  std::uint64_t per_item = 0;

  bool operator==(const ItemCost&) const = default;
};

// Integers, so that all workers agree. A sweep of 2^47 samples costs less than 2^80.
struct Cost {
  std::uint32_t per_sample = 1;
  bool is_quadratic = false;  // and 1 for any two samples, as attention has it

  std::vector<ItemCost> items{};

  uint128 operator()(std::uint32_t size) const noexcept {
    return uint128{size} * (std::uint64_t{per_sample} + (is_quadratic ? size : 0));
  }

  // Includes the carried items of the sequence, which come with its first piece.
  uint128 of(std::uint64_t sequence, std::uint32_t first, std::uint32_t size) const {
    uint128 cost = (*this)(size);
    if (first != 0) return cost;
    for (const ItemCost& item : items) {
      std::uint32_t count = 0;
      item.counts->read(sequence, {&count, 1});
      cost += uint128{count} * item.per_item;
    }
    return cost;
  }

  bool operator==(const Cost&) const = default;
};

class Bans;

// A caller's request.
struct Request {
  static constexpr std::uint64_t kToSweepEnd = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t num_samples =
      0;  // over all workers; kToSweepEnd takes what is left of the sweep
  std::uint32_t num_workers = 1;
  std::uint32_t rank = 0;
  bool crosses_sweeps = true;   // else none reaches over the end of a sweep
  std::optional<Cost> balance;  // shares are evened by it
  bool tells_blocks = true;     // the plan is carried out: else its blocks may be left out
  const Bans* bans = nullptr;   // what they hold is not counted; it may be left out later
  // No sequence or row that begins here or later; minibatches that are made as one are not cut.
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();

  bool operator==(const Request&) const = default;
};

// Where a piece of a sequence goes in a grid of rows.
struct Cell {
  std::uint32_t row;
  std::uint32_t column;
  std::uint32_t first;  // sample of the sequence that the piece begins with
  std::uint32_t whole;  // samples of the whole sequence
};

// Pieces of sequences; a whole sequence is one piece.
struct PieceCount {
  std::uint64_t samples = 0;
  std::uint64_t pieces = 0;
  std::uint64_t ends = 0;  // pieces that no sample of their sequence comes after
  // Where the corpus has loss masks, the samples that a loss is taken on: those that are the
  // next ones of samples here, and those here that are not the first of their piece.
  std::uint64_t labels = 0;
  std::uint64_t own_labels = 0;
  double label_weight = 0;  // of `labels`: the sums of all pieces, one after the other

  PieceCount& operator+=(const PieceCount& other) noexcept {
    samples += other.samples;
    pieces += other.pieces;
    ends += other.ends;
    labels += other.labels;
    own_labels += other.own_labels;
    return *this;
  }
  bool operator==(const PieceCount&) const = default;
};

// The position of a planner: nominal time, and the progress of a layout that has any.
struct Position {
  std::uint64_t time = 0;
  std::vector<std::uint64_t> progress;
};

struct Plan {
  std::uint64_t nominal_time = 0;  // where the global minibatch begins
  std::uint64_t sweep = 0;         // that it begins in; entries of `share` count from it
  Position next;                   // where the next one will
  Position begin;                  // where a planner plans it again, of the same request
  Request request;                 // what was asked for
  std::uint64_t num_samples = 0;   // of the global minibatch, in the size-defining stream
  std::uint64_t num_sequences = 0;
  PieceCount counted;  // of the global minibatch, without those that are banned
  std::uint32_t sweeps_ended = 0;
  bool end_of_data = false;            // nothing was left before the limit
  std::vector<PlannedSequence> share;  // of the worker who asked, in order
  std::vector<std::uint64_t> banned;   // the sequences of the share that are left out
  // Where bans begin inside it (`wants_times`), the nominal time at which each entry of `share`
  // begins: that of the minibatch, and all samples of it that come before.
  std::vector<std::uint64_t> times;
  // Layouts of rows also say where each entry of `share` goes, whose size is then that of the
  // piece.
  std::vector<Cell> cells;
  bool goes_on(std::size_t j) const noexcept {
    return std::uint64_t{cells[j].first} + share[j].size < cells[j].whole;
  }
  std::uint32_t num_rows = 0;  // of the worker who asked
  std::uint32_t row_length = 0;
  std::uint64_t global_rows = 0;  // of all workers, without those that only make shares equal
  // Those that it takes from, and others that may be open and were in no earlier plan.
  std::vector<std::shared_ptr<const Block>> blocks;
};

// Keeps those entries of the share for which `keep(j)` is true, calls moved(to, from) for each,
// and returns their number. In a row later entries move up.
template <class Keep, class Moved>
std::size_t keep_of_share(Plan& plan, const Keep& keep, const Moved& moved) {
  std::size_t kept = 0;
  std::uint32_t row = 0;
  std::uint32_t freed = 0;  // cells of the row
  for (std::size_t j = 0; j < plan.share.size(); ++j) {
    if (!plan.cells.empty() && plan.cells[j].row != row) {
      row = plan.cells[j].row;
      freed = 0;
    }
    if (!keep(j)) {
      freed += plan.share[j].size;
      continue;
    }
    plan.share[kept] = plan.share[j];
    if (!plan.cells.empty()) {
      plan.cells[kept] = plan.cells[j];
      plan.cells[kept].column -= freed;
    }
    moved(kept++, j);
  }
  plan.share.resize(kept);
  if (!plan.cells.empty()) plan.cells.resize(kept);
  return kept;
}

// One plan of the sequences of several plans of whole sequences, in this order: the first one
// has the least sweep. Of none it is the end of the data.
Plan joined(std::span<const Plan* const> plans);

// Of each sequence of the share: its number in the corpus.
std::vector<std::uint64_t> sequence_numbers(const Plan& plan);

// Of each sequence of the share: the sweep that it comes from. Throws std::invalid_argument
// where a minibatch has more sweeps than a plan can hold.
std::vector<std::uint64_t> sweeps(const Plan& plan);

// The sweep of a planned sequence, as it counts from that of its plan: the largest value means
// that sweep or any later one.
std::uint16_t sweeps_behind(std::uint64_t sweep, const Plan& plan) noexcept;

// Of each sequence of the share: its size in samples.
std::vector<std::uint32_t> sequence_sizes(const Plan& plan);

// Samples of the share, in the size-defining stream.
std::uint64_t count_samples(const Plan& plan);

// Pieces of the share that no sample of their sequence comes after.
std::uint64_t count_ends(const Plan& plan);

// Of each piece of the share four numbers: row, column, first, whole.
std::vector<std::uint32_t> cell_table(const Plan& plan);

}  // namespace sweephand
