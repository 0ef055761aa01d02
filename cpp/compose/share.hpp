// The shares of workers in a minibatch: docs/order.md, section 7.
#pragma once

#include "compose/bans.hpp"
#include "compose/plan.hpp"
#include "order/block.hpp"
#include "order/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

enum class Sharing : std::uint8_t {
  kDeal,        // sequence j to worker j mod K
  kLanes,       // every worker takes its lanes
  kEvenCounts,  // lanes, then evened by count: for one sample per sequence
  kEvenCosts,   // lanes, then evened by cost, moving few sequences
  kDealCosts,   // the costliest first, each to who has least, in equal numbers
};

struct ShareRule {
  Sharing sharing = Sharing::kLanes;
  Cost cost{};                  // for kEvenCosts and kDealCosts
  std::uint32_t num_lanes = 0;  // for kEvenCounts: above the lane of every sequence
  bool first_half = false;      // for kEvenCounts: the minibatch begins in that of its sweep,
                                // and other blocks are open than in the second
};

// How the minibatch of a plan is shared, which knows where it begins.
ShareRule rule_of(const Timeline& timeline, Sharing sharing, const Request& request,
                  const Plan& plan);

// The worker of each sequence of one global minibatch. Linear, but for kEvenCosts, which goes
// over the share of the fullest worker for every sequence that it moves, and kDealCosts, which
// sorts. REQUIRES: num_workers >= 1
std::vector<std::uint32_t> owners(std::span<const PlannedSequence> minibatch,
                                  std::uint32_t num_workers, const ShareRule& rule);

// The sequences of one of them, in the order of the minibatch, which the only worker takes as
// it is. REQUIRES: rank < num_workers
std::vector<PlannedSequence> share_of(std::vector<PlannedSequence>& minibatch,
                                      std::uint32_t num_workers, std::uint32_t rank,
                                      const ShareRule& rule);

// Those of `things` that are one worker's, in their order.
template <class Thing, class Owners>
std::vector<Thing> owned_by(std::uint32_t rank, const std::vector<Thing>& things,
                            const Owners& owners) {
  std::vector<Thing> owned;
  for (std::size_t j = 0; j < things.size(); ++j) {
    if (owners[j] == rank) owned.push_back(things[j]);
  }
  return owned;
}

// The places of costs, the largest first; of equals in their order.
std::vector<std::uint32_t> costliest_first(std::span<const uint128> costs);

// The worker of each item by its cost, as kDealCosts deals them. REQUIRES:
// num_workers >= 1
std::vector<std::uint32_t> deal_costs(std::span<const uint128> costs,
                                      std::uint32_t num_workers);

// Whether bans of the request begin inside the minibatch, so that the plan is to say when each
// sequence of the share begins. REQUIRES: plan.nominal_time is set
inline bool wants_times(const Request& request, const Plan& plan) noexcept {
  return request.bans != nullptr && request.bans->begin_after(plan.nominal_time);
}

// Puts the share of the requesting worker into the plan, and if requested the nominal times at
// which its sequences begin. With a single worker the minibatch is moved into its share and is
// empty then; otherwise it stays. REQUIRES: plan.nominal_time is set
void give_share(std::vector<PlannedSequence>& minibatch, const ShareRule& rule,
                const Request& request, Plan& plan);

}  // namespace sweephand
