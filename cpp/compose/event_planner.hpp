// Plans along a timeline with events: docs/order.md, "Events".
//
//   0          cut       skip            leg 1
//   |...........|.........xxxxxxxxxx......|...........
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

// The events of a timeline, except changes of the planner.
struct Events {
  std::vector<Skip> skips;          // ascending, apart from each other
  std::vector<std::uint64_t> cuts;  // ascending: something changes here
  std::shared_ptr<const Bans> bans;
};

// Skips, cuts and other planners apply to a unit of the layout (a sequence, a row or the
// minibatch of a bucket) by its beginning, and a ban applies to every sequence or piece by its
// own: so the requested sizes do not matter, and a ban moves no boundary.
class EventPlanner final : public Planner {
 public:
  // Throws std::invalid_argument where skips or cuts do not ascend.
  EventPlanner(std::shared_ptr<const Timeline> timeline, std::unique_ptr<Planner> planner,
               Events events);

  // Hands over to another planner at `begin`, where both have a place. Throws
  // std::invalid_argument unless that is after the last one.
  void hand_over(std::uint64_t begin, std::unique_ptr<Planner> planner);

  void seek(std::uint64_t time) override;
  void resume(const Position& position) override;
  std::uint64_t time() const override { return leg().time(); }
  Plan next(const Request& request) override;

  // A sequence that is left out has the place where it would be.
  std::uint64_t find(std::uint64_t sequence, std::uint64_t sweep,
                     std::uint64_t num_samples) const override;
  std::vector<std::uint64_t> sequences_in(std::uint64_t start, std::uint64_t stop,
                                          std::uint64_t num_samples) const override;
  std::uint64_t boundary(std::uint64_t time) const override {
    return legs_.back().planner->boundary(time);
  }

 private:
  struct Leg {
    std::uint64_t begin;
    std::unique_ptr<Planner> planner;
  };

  Planner& leg() const { return *legs_[current_].planner; }
  std::size_t leg_at(std::uint64_t time) const noexcept;
  std::uint64_t delivered_from(std::uint64_t time) const;
  bool settle();
  Plan delivered(const Request& request);
  std::uint64_t next_change() const;
  std::uint32_t sweeps_ended(std::uint64_t begin, std::uint64_t end) const;
  void leave_out(Plan& plan) const;

  std::shared_ptr<const Timeline> timeline_;
  std::vector<Leg> legs_;
  std::size_t current_ = 0;
  Events events_;
};

}  // namespace sweephand
