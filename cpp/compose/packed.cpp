#include "compose/packed.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

constexpr std::uint64_t kMaxCells = (std::uint64_t{1} << 31) - 1;  // boundaries are int32

// The rows of every worker.
std::uint64_t share_rows(std::uint64_t global_rows, const Request& request) {
  return global_rows / request.num_workers + (global_rows % request.num_workers != 0 ? 1 : 0);
}

}  // namespace

PackedPlanner::PackedPlanner(std::shared_ptr<const Timeline> timeline, const Packing& packing,
                             std::uint64_t limit)
    : timeline_(std::move(timeline)), packing_(packing), limit_(limit) {
  check(packing);
}

// Of the global minibatch, at most.
std::uint64_t PackedPlanner::num_rows(const Request& request) const {
  if (request.num_samples == Request::kToSweepEnd) return Request::kToSweepEnd;
  return std::max<std::uint64_t>(1, request.num_samples / packing_.row_length);
}

std::uint32_t PackedPlanner::whole_size(const Piece& piece) const {
  std::uint32_t size = piece.size;
  const bool whole = piece.first == 0 && piece.goes_on == 0;
  if (!whole) timeline_->corpus().sizes->read(piece.sequence, {&size, 1});
  return size;
}

void PackedPlanner::add_row(const Request& request, Plan& plan) const {
  const std::span<const Piece> pieces = cursor_->front();
  plan.num_sequences += pieces.size();
  if (plan.global_rows % request.num_workers == request.rank) {
    const auto row = static_cast<std::uint32_t>(plan.global_rows / request.num_workers);
    std::uint32_t column = 0;
    for (const Piece& piece : pieces) {
      plan.share.push_back({.sequence = piece.sequence, .size = piece.size, .lane = 0});
      plan.cells.push_back(
          {.row = row, .column = column, .first = piece.first, .whole = whole_size(piece)});
      column += piece.size;
    }
  }
  ++plan.global_rows;
}

Plan PackedPlanner::next(const Request& request) {
  check(request);
  const std::uint64_t wanted = num_rows(request);
  if (!cursor_) seek(0);
  Plan plan;
  plan.nominal_time = time();
  plan.row_length = packing_.row_length;
  cursor_->open_blocks(plan.blocks);
  while (plan.global_rows < wanted && !at_end()) {
    if (share_rows(plan.global_rows + 1, request) > kMaxCells / plan.row_length) {
      seek(plan.nominal_time);
      throw std::invalid_argument(
          "a share of the minibatch would have 2^31 cells or more in rows of " +
          std::to_string(plan.row_length) + "; ask for a smaller one");
    }
    if (cursor_->sweep_done()) cursor_->enter_next_sweep();
    cursor_->opened_blocks(plan.blocks);
    add_row(request, plan);
    cursor_->pop();
    if (!cursor_->sweep_done()) continue;
    ++plan.sweeps_ended;
    if (!request.crosses_sweeps || wanted == Request::kToSweepEnd) break;
  }
  cursor_->open_blocks(plan.blocks);
  plan.next.time = time();
  plan.num_samples = plan.next.time - plan.nominal_time;
  plan.end_of_data = plan.global_rows == 0;
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

}  // namespace sweephand
