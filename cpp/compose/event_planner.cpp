#include "compose/event_planner.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

void check(const Events& events) {
  std::uint64_t end = 0;
  for (const Skip& skip : events.skips) {
    if (skip.begin < end || skip.end <= skip.begin)
      throw std::invalid_argument("spans to skip must ascend and hold something, got [" +
                                  std::to_string(skip.begin) + ", " + std::to_string(skip.end) +
                                  ") behind " + std::to_string(end));
    end = skip.end;
  }
  if (!std::ranges::is_sorted(events.cuts))
    throw std::invalid_argument("the times of events must ascend");
}

}  // namespace

EventPlanner::EventPlanner(std::shared_ptr<const Timeline> timeline,
                           std::unique_ptr<Planner> planner, Events events)
    : timeline_(std::move(timeline)), planner_(std::move(planner)), events_(std::move(events)) {
  check(events_);
}

// The first time at or after `time` that is not skipped.
std::uint64_t EventPlanner::delivered_from(std::uint64_t time) const {
  const auto skip = std::ranges::upper_bound(events_.skips, time, {}, &Skip::end);
  return skip != events_.skips.end() && skip->begin <= time ? skip->end : time;
}

// Goes to the next time that is delivered, or to the end; returns true if it moved.
bool EventPlanner::settle() {
  bool moved = false;
  while (true) {
    const std::uint64_t wanted = delivered_from(time());
    if (wanted == time()) return moved;
    seek(wanted);
    moved = true;
    if (time() < wanted) return moved;  // the data end in a skipped span
  }
}

// The latest end of the next minibatch.
std::uint64_t EventPlanner::next_change() const {
  std::uint64_t change = kNoLimit;
  const std::uint64_t now = time();
  const auto skip = std::ranges::lower_bound(events_.skips, now, {}, &Skip::begin);
  if (skip != events_.skips.end()) change = std::min(change, skip->begin);
  const auto cut = std::ranges::upper_bound(events_.cuts, now);
  if (cut != events_.cuts.end()) change = std::min(change, *cut);
  return change;
}

// The next plan outside of skipped spans.
Plan EventPlanner::delivered(const Request& request) {
  while (true) {
    settle();
    Request until = request;
    until.end = std::min(request.end, next_change());
    if (events_.bans != nullptr && events_.bans->hold_at(kNoLimit))
      until.bans = events_.bans.get();
    Plan plan = planner_->next(until);
    // A minibatch that is found by its size may begin later than the time sought.
    const std::uint64_t wanted = delivered_from(plan.nominal_time);
    if (plan.end_of_data || wanted == plan.nominal_time) return plan;
    seek(wanted);
  }
}

// Sweeps that end in a skipped span.
std::uint32_t EventPlanner::sweeps_ended(std::uint64_t begin, std::uint64_t end) const {
  const std::uint64_t sweep = timeline_->num_samples();
  std::uint64_t ended = end / sweep - begin / sweep;
  if (begin < end && end % sweep != 0) {
    // That of a mixture ends with the data.
    const std::unique_ptr<Cursor> cursor = timeline_->cursor(end);
    if (cursor->sweep_done() && cursor->time() == end) ++ended;
  }
  return static_cast<std::uint32_t>(ended);
}

Plan EventPlanner::next(const Request& request) {
  Plan plan = delivered(request);
  if (plan.end_of_data) return plan;
  const std::uint64_t before = plan.next.time;
  if (settle()) {
    plan.next = {.time = time()};
    if (timeline_->tells_sweeps()) plan.sweeps_ended += sweeps_ended(before, time());
  }
  leave_out(plan);
  return plan;
}

void EventPlanner::leave_out(Plan& plan) const {
  const std::vector<std::uint64_t> times = std::exchange(plan.times, {});
  if (events_.bans == nullptr) return;
  if (!events_.bans->hold_at(plan.nominal_time + plan.num_samples - 1)) return;
  const std::vector<std::size_t> banned =
      events_.bans->among(plan.share, plan.nominal_time, times);
  if (banned.empty()) return;
  for (const std::size_t j : banned) plan.banned.push_back(plan.share[j].sequence);
  auto next = banned.begin();
  const auto is_kept = [&](std::size_t j) {
    if (next == banned.end() || *next != j) return true;
    ++next;
    return false;
  };
  // Buckets have a row for each sequence; rows of other layouts stay, even when empty.
  const bool is_bucket = plan.cells.empty() && plan.row_length != 0;
  const std::size_t kept = keep_of_share(plan, is_kept, [](std::size_t, std::size_t) {});
  if (is_bucket) plan.num_rows = static_cast<std::uint32_t>(kept);
}

}  // namespace sweephand
