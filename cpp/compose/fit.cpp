#include "compose/fit.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

Sharing sharing_of(const Timeline& timeline, const Request& request) {
  if (!timeline.settings().randomize) return Sharing::kDeal;
  if (timeline.corpus().sizes->common() == 1) return Sharing::kEvenCounts;
  return request.balances_samples ? Sharing::kEvenSamples : Sharing::kLanes;
}

void check_lanes(const Request& request, const Timeline& timeline) {
  if (timeline.settings().randomize && request.num_workers > timeline.settings().num_lanes) {
    throw std::invalid_argument(
        "num_data_partitions must be at most the number of lanes, " +
        std::to_string(timeline.settings().num_lanes) + ", got " +
        std::to_string(request.num_workers) +
        "; give a larger num_lanes, which is another order, to serve more workers");
  }
}

}  // namespace

FitPlanner::FitPlanner(std::shared_ptr<const Timeline> timeline, Fitting /*options*/,
                       std::uint64_t limit)
    : timeline_(std::move(timeline)), limit_(limit) {}

void FitPlanner::seek(std::uint64_t time) {
  cursor_ = cursor_ ? std::make_unique<Cursor>(*cursor_, time)
                    : std::make_unique<Cursor>(timeline_, time);
  is_moved_ = true;
}

void FitPlanner::take(const Request& request, Plan& plan) {
  std::uint64_t room = request.num_samples;
  while (!at_end()) {
    if (cursor_->sweep_done()) cursor_->enter_next_sweep();
    const PlannedSequence& front = cursor_->front();
    // The first sequence is taken whatever its size.
    if (front.size > room && !minibatch_.empty()) return;
    if (request.tells_blocks) cursor_->add_front_block(number_, plan.blocks);
    minibatch_.push_back(front);
    room -= std::min<std::uint64_t>(room, front.size);
    cursor_->pop();
    if (cursor_->sweep_done()) {
      ++plan.sweeps_ended;
      if (!request.crosses_sweeps || request.num_samples == Request::kToSweepEnd) return;
    }
    if (room == 0) return;
  }
}

Plan FitPlanner::next(const Request& request) {
  check(request);
  check_lanes(request, *timeline_);
  if (!cursor_) seek(0);
  Plan plan;
  plan.nominal_time = time();
  ++number_;
  if (is_moved_ && request.tells_blocks) cursor_->open_blocks(plan.blocks);
  minibatch_.clear();
  take(request, plan);
  is_moved_ = is_moved_ && !request.tells_blocks;
  plan.next.time = time();
  plan.num_samples = plan.next.time - plan.nominal_time;
  plan.num_sequences = minibatch_.size();
  plan.end_of_data = minibatch_.empty();
  plan.share =
      share_of(minibatch_, request.num_workers, request.rank, sharing_of(*timeline_, request));
  return plan;
}

std::uint64_t FitPlanner::find(std::uint64_t sequence, std::uint64_t sweep,
                               std::uint64_t /*num_samples*/) const {
  return timeline_->find(sequence, sweep);
}

std::vector<std::uint64_t> FitPlanner::sequences_in(std::uint64_t start, std::uint64_t stop,
                                                    std::uint64_t /*num_samples*/) const {
  return sequences_between(timeline_, start, std::min(stop, limit_));
}

}  // namespace sweephand
