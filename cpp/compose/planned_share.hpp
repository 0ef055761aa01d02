// The share of a plan: which sequences of a minibatch are the worker's, and when they begin.
#pragma once

#include "compose/plan.hpp"
#include "compose/share.hpp"

#include <vector>

namespace sweephand {

// Puts the share of the worker who asked into the plan, and where the request wants them the
// nominal times at which its sequences begin. REQUIRES: plan.nominal_time is set
void give_share(std::vector<PlannedSequence> minibatch, Sharing sharing, const Request& request,
                Plan& plan);

}  // namespace sweephand
