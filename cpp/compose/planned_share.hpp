// The share of a plan: the worker's sequences of a minibatch, and the times at which they
// begin.
#pragma once

#include "compose/bans.hpp"
#include "compose/plan.hpp"
#include "compose/share.hpp"

#include <vector>

namespace sweephand {

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
