#include "compose/planned_share.hpp"

#include <cstdint>

namespace sweephand {

void give_share(std::vector<PlannedSequence>& minibatch, const ShareRule& rule,
                const Request& request, Plan& plan) {
  const std::uint32_t num_workers = request.num_workers;
  if (!wants_times(request, plan)) {
    plan.share = share_of(minibatch, num_workers, request.rank, rule);
    return;
  }
  std::vector<std::uint64_t> times;
  times.reserve(minibatch.size());
  std::uint64_t time = plan.nominal_time;
  for (const PlannedSequence& planned : minibatch) {
    times.push_back(time);
    time += planned.size;
  }
  const std::vector<std::uint32_t> owner = owners(minibatch, num_workers, rule);
  plan.share = owned_by(request.rank, minibatch, owner);
  plan.times = owned_by(request.rank, times, owner);
}

}  // namespace sweephand
