#include "compose/share.hpp"

#include "compose/even_counts.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

namespace sweephand {
namespace {

// Before any is moved.
class FirstOwner {
 public:
  FirstOwner(std::span<const PlannedSequence> minibatch, std::uint32_t num_workers,
             Sharing sharing)
      : minibatch_(minibatch), num_workers_(num_workers), deals_(sharing == Sharing::kDeal) {}

  std::uint32_t operator[](std::size_t j) const {
    const std::size_t turn = deals_ ? j : minibatch_[j].lane;
    // Mostly there are as many lanes: a division takes longer than all else.
    if (turn < num_workers_) return static_cast<std::uint32_t>(turn);
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there is a worker
    return static_cast<std::uint32_t>(turn % num_workers_);
  }

 private:
  std::span<const PlannedSequence> minibatch_;
  std::uint32_t num_workers_;
  bool deals_;
};

// What the workers have, while sequences move from one to the other.
class Loads {
 public:
  // Who has what is written to `owner`, and kept there.
  Loads(std::span<const PlannedSequence> minibatch, const FirstOwner& first_owner,
        std::vector<std::uint32_t>& owner, std::uint32_t num_workers, const Cost& cost)
      : minibatch_(minibatch),
        cost_(cost),
        owner_(owner),
        next_(minibatch.size()),
        workers_(num_workers) {
    give(first_owner);
    std::vector<std::pair<uint128, std::uint32_t>> by_load;
    by_load.reserve(num_workers);
    for (std::uint32_t k = 0; k < num_workers; ++k) {
      total_ += workers_[k].load;
      by_load.emplace_back(workers_[k].load, k);
    }
    std::ranges::sort(by_load);
    by_load_ = {by_load.begin(), by_load.end()};
  }

  // Moves one sequence from the fullest worker to the emptiest; of equals the lowest rank.
  // Returns whether there was need, and one that fits.
  bool even() {
    const auto [least, emptiest] = *by_load_.begin();
    const uint128 most = by_load_.rbegin()->first;
    const std::uint32_t fullest = by_load_.lower_bound({most, 0})->second;
    const uint128 gap = most - least;
    if (gap * workers_.size() * 64 <= total_) return false;
    std::uint32_t* const best = best_to_move(workers_[fullest].first, gap);
    if (best == nullptr) return false;
    const std::uint32_t j = std::exchange(*best, next_[*best]);
    next_[j] = std::exchange(workers_[emptiest].first, j);
    owner_[j] = emptiest;
    change(fullest, most - cost_of(j));
    change(emptiest, least + cost_of(j));
    return true;
  }

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};

  struct Worker {
    uint128 load = 0;
    std::uint64_t samples = 0;   // before any is moved
    std::uint32_t first = kEnd;  // of what it has, in no order
  };

  // All that there is to know of a sequence in one pass: a minibatch of the whole cluster is
  // larger than the processor's cache.
  void give(const FirstOwner& first_owner) {
    for (std::uint32_t j = 0; j < next_.size(); ++j) {
      const std::uint32_t k = first_owner[j];
      Worker& worker = workers_[k];
      owner_[j] = k;
      next_[j] = std::exchange(worker.first, j);
      worker.samples += minibatch_[j].size;
    }
    if (cost_.is_quadratic || !cost_.items.empty()) {
      for (std::uint32_t j = 0; j < next_.size(); ++j) workers_[owner_[j]].load += cost_of(j);
    } else {  // in proportion to samples, whose sums fit a word
      for (Worker& worker : workers_) worker.load = uint128{worker.samples} * cost_.per_sample;
    }
  }

  uint128 cost_of(std::size_t j) const {
    return cost_.of(minibatch_[j].sequence, 0, minibatch_[j].size);
  }

  // The link to the one that costs less than `gap` and nearest to half of it; of equals the
  // last in the minibatch. Null if there is none.
  std::uint32_t* best_to_move(std::uint32_t& first, uint128 gap) {
    std::uint32_t* best = nullptr;
    uint128 nearest = gap;  // |2 cost - gap| of a cost in (0, gap) is below gap
    for (std::uint32_t* link = &first; *link != kEnd; link = &next_[*link]) {
      const uint128 cost = cost_of(*link);
      const uint128 distance = 2 * cost > gap ? 2 * cost - gap : gap - 2 * cost;
      if (cost >= gap || distance > nearest) continue;
      if (distance == nearest && best != nullptr && *best > *link) continue;
      best = link;
      nearest = distance;
    }
    return best;
  }

  void change(std::uint32_t worker, uint128 load) {
    by_load_.erase({workers_[worker].load, worker});
    workers_[worker].load = load;
    by_load_.emplace(load, worker);
  }

  std::span<const PlannedSequence> minibatch_;
  Cost cost_;
  std::vector<std::uint32_t>& owner_;
  std::vector<std::uint32_t> next_;  // the one behind each that its worker has; or kEnd
  std::vector<Worker> workers_;
  std::set<std::pair<uint128, std::uint32_t>> by_load_;
  uint128 total_ = 0;
};

void even_costs(std::span<const PlannedSequence> minibatch, const FirstOwner& first_owner,
                std::vector<std::uint32_t>& owner, std::uint32_t num_workers,
                const Cost& cost) {
  Loads loads(minibatch, first_owner, owner, num_workers, cost);
  while (loads.even()) {
  }
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
  std::vector<std::uint32_t> owner(minibatch.size());
  const FirstOwner first_owner(minibatch, num_workers, rule.sharing);
  if (rule.sharing == Sharing::kEvenCosts) {
    even_costs(minibatch, first_owner, owner, num_workers, rule.cost);
    return owner;
  }
  for (std::size_t j = 0; j < owner.size(); ++j) owner[j] = first_owner[j];
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

}  // namespace sweephand
