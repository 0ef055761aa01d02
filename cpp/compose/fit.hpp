// The fit rule: as many whole sequences as fit, in order (docs/order.md, section 6).
#pragma once

#include "compose/planner.hpp"
#include "compose/share.hpp"
#include "order/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sweephand {

// There is nothing to choose.
struct Fitting {};

// How a planned minibatch is shared, as the request has it.
ShareRule fit_share_rule(const Timeline& timeline, const Request& request, const Plan& plan);

class FitPlanner final : public Planner {
 public:
  // The timeline ends at `limit`.
  FitPlanner(std::shared_ptr<const Timeline> timeline, Fitting /*choices*/,
             std::uint64_t limit = kNoLimit);

  void seek(std::uint64_t time) override;
  std::uint64_t time() const override { return cursor_ ? cursor_->time() : 0; }
  Plan next(const Request& request) override;
  std::uint64_t find(std::uint64_t sequence, std::uint64_t sweep,
                     std::uint64_t num_samples) const override;
  std::vector<std::uint64_t> sequences_in(std::uint64_t start, std::uint64_t stop,
                                          std::uint64_t num_samples) const override;

 private:
  bool ends_with_sweep(const Request& request, Plan& plan) const;
  void take(const Request& request, Plan& plan, std::vector<PlannedSequence>& minibatch);

  std::shared_ptr<const Timeline> timeline_;
  std::uint64_t limit_;
  std::unique_ptr<Cursor> cursor_;  // null before the first use
  bool is_moved_ = true;            // no minibatch was planned from where it stands
  std::uint32_t number_ = 0;        // of minibatches that were planned
  std::size_t num_sequences_ = 0;   // of the last one
  // The last global one, whose memory the next one takes; empty where it is all one worker's.
  std::vector<PlannedSequence> minibatch_;
};

}  // namespace sweephand
