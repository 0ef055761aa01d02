#include "compose/share.hpp"

#include "compose/even_counts.hpp"
#include "compose/loads.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace sweephand {
namespace {

// The owner of each sequence before any is moved.
class FirstOwner {
 public:
  FirstOwner(std::span<const PlannedSequence> minibatch, std::uint32_t num_workers,
             Sharing sharing)
      : minibatch_(minibatch), num_workers_(num_workers), deals_(sharing == Sharing::kDeal) {}

  std::uint32_t operator[](std::size_t j) const noexcept {
    return first_owner(deals_ ? j : minibatch_[j].lane, num_workers_);
  }

 private:
  std::span<const PlannedSequence> minibatch_;
  std::uint32_t num_workers_;
  bool deals_;
};

Loads evened(std::span<const LaneRun> runs, std::span<const PlannedSequence> rest,
             std::uint32_t num_workers, const ShareRule& rule) {
  Loads loads(runs, rest, num_workers, rule.cost);
  while (loads.even()) {
  }
  return loads;
}

}  // namespace

std::vector<std::uint32_t> costliest_first(std::span<const uint128> costs) {
  std::vector<std::uint32_t> places(costs.size());
  std::iota(places.begin(), places.end(), 0U);
  std::ranges::stable_sort(places, std::greater<>{}, [&](std::uint32_t j) { return costs[j]; });
  return places;
}

std::vector<std::uint32_t> deal_costs(std::span<const uint128> costs,
                                      std::uint32_t num_workers) {
  struct Worker {
    uint128 load;
    std::uint32_t rank;
    std::uint64_t wanted;
    bool operator>(const Worker& other) const {
      return load != other.load ? load > other.load : rank > other.rank;
    }
  };
  std::priority_queue<Worker, std::vector<Worker>, std::greater<>> workers;
  for (std::uint32_t k = 0; k < num_workers && k < costs.size(); ++k) {
    workers.push({0, k, costs.size() / num_workers + (k < costs.size() % num_workers)});
  }
  std::vector<std::uint32_t> owner(costs.size());
  for (const std::uint32_t j : costliest_first(costs)) {
    Worker least = workers.top();
    workers.pop();
    owner[j] = least.rank;
    least.load += costs[j];
    if (--least.wanted != 0) workers.push(least);
  }
  return owner;
}

ShareRule rule_of(const Timeline& timeline, Sharing sharing, const Request& request,
                  const Plan& plan) {
  const std::uint64_t done = plan.nominal_time % timeline.num_samples();
  const std::uint64_t num_lanes = timeline.settings().num_lanes;
  return {.sharing = sharing,
          .cost = request.balance.value_or(Cost{}),
          .num_lanes = timeline.settings().num_lanes,
          .first_half = timeline.extent().blocks >= 2 * num_lanes &&
                        done < timeline.num_samples() - done};
}

std::vector<std::uint32_t> owners(std::span<const PlannedSequence> minibatch,
                                  std::uint32_t num_workers, const ShareRule& rule) {
  if (rule.sharing == Sharing::kDealCosts) {
    std::vector<uint128> costs(minibatch.size());
    std::ranges::transform(minibatch, costs.begin(), [&](const PlannedSequence& planned) {
      return rule.cost.of(planned.sequence, 0, planned.size);
    });
    return deal_costs(costs, num_workers);
  }
  if (rule.sharing == Sharing::kEvenCosts)
    return evened({}, minibatch, num_workers, rule).owners();
  std::vector<std::uint32_t> owner(minibatch.size());
  const FirstOwner owner_of(minibatch, num_workers, rule.sharing);
  for (std::size_t j = 0; j < owner.size(); ++j) owner[j] = owner_of[j];
  if (rule.sharing == Sharing::kEvenCounts) even_counts(minibatch, owner, num_workers, rule);
  return owner;
}

std::vector<PlannedSequence> share_of(std::vector<PlannedSequence>& minibatch,
                                      std::uint32_t num_workers, std::uint32_t rank,
                                      const ShareRule& rule) {
  if (num_workers == 1) return std::exchange(minibatch, {});
  if (rule.sharing == Sharing::kDeal || rule.sharing == Sharing::kLanes)
    return owned_by(rank, minibatch, FirstOwner(minibatch, num_workers, rule.sharing));
  return owned_by(rank, minibatch, owners(minibatch, num_workers, rule));
}

std::vector<PlannedSequence> share_of(std::span<const LaneRun> runs,
                                      std::span<const PlannedSequence> rest,
                                      std::uint32_t num_workers, std::uint32_t rank,
                                      const ShareRule& rule) {
  if (rule.sharing == Sharing::kEvenCosts)
    return evened(runs, rest, num_workers, rule).share(rank);
  std::vector<PlannedSequence> share = in_order(sequences_of(runs, rank, num_workers));
  for (const PlannedSequence& one : rest) {
    if (first_owner(one.lane, num_workers) == rank) share.push_back(one);
  }
  return share;
}

}  // namespace sweephand
