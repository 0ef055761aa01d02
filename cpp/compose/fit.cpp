#include "compose/fit.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

Sharing sharing_of(const Timeline& timeline, const Request& request) {
  if (!timeline.settings().randomize) return Sharing::kDeal;
  if (timeline.corpus().sizes->common() == 1) return Sharing::kEvenCounts;
  return request.balance ? Sharing::kEvenCosts : Sharing::kLanes;
}

void check_lanes(const Request& request, const Timeline& timeline) {
  const OrderSettings& settings = timeline.settings();
  if (settings.randomize && request.num_workers > settings.num_lanes) {
    throw std::invalid_argument(
        "num_data_partitions must be at most the number of lanes, " +
        std::to_string(settings.num_lanes) + ", got " + std::to_string(request.num_workers) +
        "; give a larger num_lanes, which is another order, to serve more workers");
  }
}

// They count from the sweep of the plan, as they come.
void mark_sweep(std::span<PlannedSequence> sequences, std::uint64_t sweep, const Plan& plan) {
  if (sweep == plan.sweep) return;
  for (PlannedSequence& one : sequences) one.sweep = sweeps_behind(sweep, plan);
}

}  // namespace

ShareRule fit_share_rule(const Timeline& timeline, const Request& request, const Plan& plan) {
  return rule_of(timeline, sharing_of(timeline, request), request, plan);
}

FitPlanner::FitPlanner(std::shared_ptr<const Timeline> timeline, Fitting /*options*/,
                       std::uint64_t limit)
    : timeline_(std::move(timeline)), limit_(limit) {}

void FitPlanner::seek(std::uint64_t time) {
  time = std::min(time, limit_);
  cursor_ = cursor_ ? cursor_->at(time) : timeline_->cursor(time);
  is_moved_ = true;
}

// True if a minibatch that has come to the end of a sweep ends there.
bool FitPlanner::ends_with_sweep(const Request& request, Plan& plan) const {
  if (!cursor_->sweep_done()) return false;
  if (timeline_->tells_sweeps()) ++plan.sweeps_ended;
  return !request.crosses_sweeps || request.num_samples == Request::kToSweepEnd;
}

// The global minibatch.
void FitPlanner::take(const Request& request, Plan& plan,
                      std::vector<PlannedSequence>& minibatch) {
  minibatch.clear();
  minibatch.reserve(num_sequences_ + num_sequences_ / 8);
  std::uint64_t room = request.num_samples;
  const std::uint64_t end = std::min(limit_, request.end);
  while (time() < end) {
    if (cursor_->sweep_done()) cursor_->enter_next_sweep();
    const std::span<const PlannedSequence> ahead = cursor_->ahead();
    std::uint64_t samples = 0;
    std::size_t count = 0;
    // The first sequence is taken whatever its size.
    const bool is_first = minibatch.empty();
    const auto takes_next = [&] {
      return samples + ahead[count].size <= room || (count == 0 && is_first);
    };
    const std::uint64_t now = time();
    while (count < ahead.size() && now + samples < end && takes_next())
      samples += ahead[count++].size;
    const std::span<const PlannedSequence> taken = ahead.first(count);
    if (request.tells_blocks) cursor_->add_blocks(taken, number_, plan.blocks);
    const bool is_full = count < ahead.size() || samples >= room;
    if (is_first) plan.sweep = cursor_->sweep();
    minibatch.insert(minibatch.end(), taken.begin(), taken.end());
    mark_sweep(std::span(minibatch).last(count), cursor_->sweep(), plan);
    room -= std::min(room, samples);
    cursor_->pop(count, samples);
    if ((count != 0 && ends_with_sweep(request, plan)) || is_full) break;
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
  take(request, plan, minibatch_);
  is_moved_ = is_moved_ && !request.tells_blocks;
  plan.next.time = time();
  plan.num_samples = plan.next.time - plan.nominal_time;
  num_sequences_ = minibatch_.size();
  plan.num_sequences = num_sequences_;
  plan.end_of_data = plan.num_sequences == 0;
  const ShareRule rule = fit_share_rule(*timeline_, request, plan);
  plan.counted =
      count_sequences(minibatch_, request.bans, timeline_->corpus().masks.get(), plan);
  give_share(minibatch_, rule, request, plan);
  return plan;
}

std::uint64_t FitPlanner::find(std::uint64_t sequence, std::uint64_t sweep,
                               std::uint64_t /*num_samples*/) const {
  return timeline_->find(sequence, sweep);
}

std::vector<std::uint64_t> FitPlanner::sequences_in(std::uint64_t start, std::uint64_t stop,
                                                    std::uint64_t /*num_samples*/) const {
  return sequences_between(*timeline_, start, std::min(stop, limit_));
}

}  // namespace sweephand
