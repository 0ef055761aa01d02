#include "compose/planner.hpp"

#include <stdexcept>
#include <string>

namespace sweephand {

void Planner::resume(const Position& position) {
  if (!position.progress.empty()) {
    throw std::invalid_argument("nominal time alone is a place in this layout, got " +
                                std::to_string(position.progress.size()) +
                                " more numbers of progress");
  }
  seek(position.time);
}

Plan plan_only(Planner& planner, Request request) {
  request.tells_blocks = false;
  return planner.next(request);
}

std::vector<std::uint64_t> plan_sequences_in(Planner& planner, std::uint64_t start,
                                             std::uint64_t stop, std::uint64_t num_samples) {
  std::vector<std::uint64_t> sequences;
  while (planner.time() < stop) {
    const Plan plan = plan_only(planner, {.num_samples = num_samples});
    if (plan.end_of_data) break;
    std::uint64_t time = plan.nominal_time;
    for (std::size_t j = 0; j < plan.share.size(); ++j) {
      const bool begins = plan.cells.empty() || plan.cells[j].first == 0;
      if (begins && start <= time && time < stop) sequences.push_back(plan.share[j].sequence);
      time += plan.share[j].size;
    }
  }
  return sequences;
}

void check(const Request& request) {
  if (request.num_samples == 0) {
    throw std::invalid_argument("minibatch_size_in_samples must be positive, got 0");
  }
  if (request.num_workers == 0 || request.rank >= request.num_workers) {
    throw std::invalid_argument(
        "partition_index must be below num_data_partitions, which is at least 1, got " +
        std::to_string(request.rank) + " of " + std::to_string(request.num_workers));
  }
}

}  // namespace sweephand
