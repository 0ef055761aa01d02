// Plans along a timeline with events: docs/order.md, "Events".
//
//   0          cut       skip
//   |...........|.........xxxxxxxxxx......
//    one minibatch reaches over none of these
#pragma once

#include "compose/bans.hpp"
#include "compose/planner.hpp"
#include "order/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sweephand {

// A span of nominal time of which nothing that begins there is delivered.
struct Skip {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The events of a timeline, except changes of weights.
struct Events {
  std::vector<Skip> skips;          // ascending, apart from each other
  std::vector<std::uint64_t> cuts;  // ascending: something changes here
  std::shared_ptr<const Bans> bans;
};

// Skips and cuts apply to a unit of the layout (a sequence, a row or the
// minibatch of a bucket) by its beginning, and a ban applies to every sequence or piece by its
// own: so the requested sizes do not matter, and a ban moves no boundary.
class EventPlanner final : public Planner {
 public:
  // Throws std::invalid_argument where skips or cuts do not ascend.
  EventPlanner(std::shared_ptr<const Timeline> timeline, std::unique_ptr<Planner> planner,
               Events events);

  void seek(std::uint64_t time) override { planner_->seek(time); }
  void resume(const Position& position) override { planner_->resume(position); }
  std::uint64_t time() const override { return planner_->time(); }
  Plan next(const Request& request) override;

  // A sequence that is left out has the place where it would be.
  std::uint64_t find(std::uint64_t sequence, std::uint64_t sweep,
                     std::uint64_t num_samples) const override {
    return planner_->find(sequence, sweep, num_samples);
  }
  std::vector<std::uint64_t> sequences_in(std::uint64_t start, std::uint64_t stop,
                                          std::uint64_t num_samples) const override {
    return planner_->sequences_in(start, stop, num_samples);
  }
  std::uint64_t boundary(std::uint64_t time) const override { return planner_->boundary(time); }

 private:
  std::uint64_t delivered_from(std::uint64_t time) const;
  bool settle();
  Plan delivered(const Request& request);
  std::uint64_t next_change() const;
  std::uint32_t sweeps_ended(std::uint64_t begin, std::uint64_t end) const;
  void leave_out(Plan& plan) const;

  std::shared_ptr<const Timeline> timeline_;
  std::unique_ptr<Planner> planner_;
  Events events_;
};

}  // namespace sweephand
