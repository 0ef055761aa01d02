#include "compose/packed.hpp"

#include "base/mix.hpp"
#include "compose/micro_batches.hpp"
#include "compose/share.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

struct KeptRow {
  std::span<const Piece> pieces;
  std::uint16_t sweep = 0;  // after that of the plan
  std::uint64_t time = 0;   // at which it begins
};

// The candidate rows of a worker in a global minibatch: without balance, its own rows.
class KeptRows {
 public:
  KeptRows(const Request& request, std::uint32_t micro_batch_rows)
      : request_(request), micro_batch_rows_(micro_batch_rows) {}

  void add(std::uint64_t number, const KeptRow& row) {
    if (!request_.balance && number % request_.num_workers != request_.rank) return;
    pieces_.insert(pieces_.end(), row.pieces.begin(), row.pieces.end());
    ends_.push_back(pieces_.size());
    sweeps_.push_back(row.sweep);
    times_.push_back(row.time);
  }

  // The rows of the worker. Rows that only fill a micro-batch are empty.
  std::vector<KeptRow> share() const {
    std::vector<KeptRow> rows;
    for (std::size_t begin = 0, j = 0; j < ends_.size(); begin = ends_[j++]) {
      rows.push_back(
          {std::span(pieces_).subspan(begin, ends_[j] - begin), sweeps_[j], times_[j]});
    }
    if (!request_.balance) return rows;
    if (micro_batch_rows_ == 0) {
      if (request_.num_workers == 1) return rows;
      return owned_by(request_.rank, rows, deal_costs(costs(rows), request_.num_workers));
    }
    std::vector<KeptRow> mine;
    for (const std::uint32_t row :
         micro_batches(costs(rows), request_.num_workers, request_.rank, micro_batch_rows_)) {
      mine.push_back(row == kNoRow ? KeptRow{} : rows[row]);
    }
    return mine;
  }

 private:
  std::vector<uint128> costs(std::span<const KeptRow> rows) const {
    const Cost cost = request_.balance.value_or(Cost{});
    std::vector<uint128> costs(rows.size());
    for (std::size_t j = 0; j < rows.size(); ++j) {
      for (const Piece& piece : rows[j].pieces)
        costs[j] += cost.of(piece.sequence, piece.first, piece.size);
    }
    return costs;
  }

  const Request& request_;
  std::uint32_t micro_batch_rows_;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> ends_;      // of each row in pieces_
  std::vector<std::uint16_t> sweeps_;  // of each row, after that of the plan
  std::vector<std::uint64_t> times_;   // of each row
};

}  // namespace

PackedPlanner::PackedPlanner(std::shared_ptr<const Timeline> timeline, const Packing& packing,
                             std::uint64_t limit)
    : timeline_(std::move(timeline)), packing_(packing), limit_(limit) {
  check(packing);
}

// The most rows of the global minibatch.
std::uint64_t PackedPlanner::num_rows(const Request& request) const {
  if (request.num_samples == Request::kToSweepEnd) return Request::kToSweepEnd;
  return std::max<std::uint64_t>(1, request.num_samples / packing_.row_length);
}

// Every worker has the same number of rows, in whole micro-batches.
std::uint64_t PackedPlanner::share_rows(std::uint64_t global_rows,
                                        const Request& request) const {
  const std::uint64_t most = divide_up(global_rows, request.num_workers);
  const std::uint64_t together = std::max(packing_.micro_batch_rows, 1U);
  return divide_up(most, together) * together;
}

std::uint32_t PackedPlanner::whole_size(const Piece& piece) const {
  std::uint32_t size = piece.size;
  const bool whole = piece.first == 0 && piece.goes_on == 0;
  if (!whole) timeline_->corpus().sizes->read(piece.sequence, {&size, 1});
  return size;
}

void PackedPlanner::add_row(std::span<const Piece> pieces, std::uint16_t sweep,
                            Plan& plan) const {
  const std::uint32_t row = plan.num_rows++;
  std::uint32_t column = 0;
  for (const Piece& piece : pieces) {
    const auto behind = static_cast<std::uint16_t>(sweep + piece.sweep);
    plan.share.push_back(
        {.sequence = piece.sequence, .size = piece.size, .lane = 0, .sweep = behind});
    plan.cells.push_back(
        {.row = row, .column = column, .first = piece.first, .whole = whole_size(piece)});
    column += piece.size;
  }
}

Plan PackedPlanner::next(const Request& request) {
  check(request);
  const std::uint64_t wanted = num_rows(request);
  if (!cursor_) seek(0);
  Plan plan;
  plan.nominal_time = time();
  plan.row_length = packing_.row_length;
  if (request.tells_blocks) cursor_->open_blocks(plan.blocks);
  KeptRows rows(request, packing_.micro_batch_rows);
  PieceCounter counter(request.bans, timeline_->corpus().masks.get(), plan.nominal_time);
  const std::uint64_t end = std::min(limit_, request.end);
  while (plan.global_rows < wanted && time() < end) {
    if (share_rows(plan.global_rows + 1, request) > kMaxCells / plan.row_length) {
      seek(plan.nominal_time);
      throw std::invalid_argument(
          "a share of the minibatch would have 2^31 cells or more in rows of " +
          std::to_string(plan.row_length) + "; ask for a smaller one");
    }
    if (cursor_->sweep_done()) cursor_->enter_next_sweep();
    if (request.tells_blocks) cursor_->opened_blocks(plan.blocks);
    const std::uint64_t sweep = time() / timeline_->num_samples();
    if (plan.global_rows == 0) plan.sweep = sweep;
    rows.add(plan.global_rows++, {cursor_->front(), sweeps_behind(sweep, plan), time()});
    plan.num_sequences += cursor_->front().size();
    for (const Piece& piece : cursor_->front())
      counter.add(piece.sequence, piece.first, piece.size, piece.goes_on == 0);
    cursor_->pop();
    if (!cursor_->sweep_done()) continue;
    if (timeline_->tells_sweeps()) ++plan.sweeps_ended;
    if (!request.crosses_sweeps || wanted == Request::kToSweepEnd) break;
  }
  if (request.tells_blocks) cursor_->open_blocks(plan.blocks);
  plan.next.time = time();
  plan.num_samples = plan.next.time - plan.nominal_time;
  plan.end_of_data = plan.global_rows == 0;
  plan.counted = counter.count();
  for (const auto& [pieces, sweep, begin] : rows.share()) {
    add_row(pieces, sweep, plan);
    if (!wants_times(request, plan)) continue;
    std::uint64_t begins = begin;
    for (const Piece& piece : pieces) {
      plan.times.push_back(begins);
      begins += piece.size;
    }
  }
  plan.num_rows = static_cast<std::uint32_t>(share_rows(plan.global_rows, request));
  return plan;
}

std::uint64_t PackedPlanner::find(std::uint64_t sequence, std::uint64_t sweep,
                                  std::uint64_t /*num_samples*/) const {
  return RowCursor::find(timeline_, packing_, sequence, sweep);
}

std::vector<std::uint64_t> PackedPlanner::sequences_in(std::uint64_t start, std::uint64_t stop,
                                                       std::uint64_t /*num_samples*/) const {
  PackedPlanner planner(timeline_, packing_, limit_);
  // The row that holds `start` begins at most a row before it.
  planner.seek(start - std::min<std::uint64_t>(start, packing_.row_length));
  return plan_sequences_in(planner, start, stop, 1);
}

std::uint64_t PackedPlanner::boundary(std::uint64_t time) const {
  return RowCursor::boundary(timeline_, packing_, time);
}

}  // namespace sweephand
