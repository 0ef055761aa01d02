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

// What the workers have, while sequences move from one to the other.
class Loads {
 public:
  Loads(std::span<const PlannedSequence> minibatch, std::vector<std::uint32_t>& owner,
        std::uint32_t num_workers, const Cost& cost)
      : minibatch_(minibatch), cost_(cost), owner_(owner), loads_(num_workers) {
    if (!cost.is_quadratic && cost.items.empty()) {
      add_samples();
    } else {
      for (std::size_t j = 0; j < minibatch.size(); ++j) loads_[owner[j]] += cost_of(j);
    }
    for (const uint128 load : loads_) total_ += load;
    for (std::uint32_t k = 0; k < num_workers; ++k) by_load_.emplace(loads_[k], k);
  }

  // Moves one sequence from the fullest worker to the emptiest; of equals the lowest rank.
  // Returns whether there was need, and one that fits.
  bool even() {
    const auto [least, emptiest] = *by_load_.begin();
    const uint128 most = by_load_.rbegin()->first;
    const std::uint32_t fullest = by_load_.lower_bound({most, 0})->second;
    const uint128 gap = most - least;
    if (gap * loads_.size() * 64 <= total_) return false;
    if (first_.empty()) list_members();
    std::uint32_t* const best = best_to_move(first_[fullest], gap);
    if (best == nullptr) return false;
    const std::uint32_t j = std::exchange(*best, next_[*best]);
    next_[j] = std::exchange(first_[emptiest], j);
    owner_[j] = emptiest;
    change(fullest, most - cost_of(j));
    change(emptiest, least + cost_of(j));
    return true;
  }

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};

  // All costs are in proportion to samples, whose sums fit a word.
  void add_samples() {
    std::vector<std::uint64_t> samples(loads_.size());
    for (std::size_t j = 0; j < minibatch_.size(); ++j)
      samples[owner_[j]] += minibatch_[j].size;
    for (std::size_t k = 0; k < samples.size(); ++k)
      loads_[k] = uint128{samples[k]} * cost_.per_sample;
  }

  // Most workers give nothing: a list of each is made in one pass, without room of its own.
  void list_members() {
    first_.assign(loads_.size(), kEnd);
    next_.resize(minibatch_.size());
    for (std::uint32_t j = 0; j < next_.size(); ++j) {
      next_[j] = std::exchange(first_[owner_[j]], j);
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
    by_load_.erase({loads_[worker], worker});
    loads_[worker] = load;
    by_load_.emplace(load, worker);
  }

  std::span<const PlannedSequence> minibatch_;
  Cost cost_;
  std::vector<std::uint32_t>& owner_;
  std::vector<uint128> loads_;
  std::vector<std::uint32_t> first_;  // of what each worker has, in no order; kEnd for nothing
  std::vector<std::uint32_t> next_;   // the one behind each
  std::set<std::pair<uint128, std::uint32_t>> by_load_;
  uint128 total_ = 0;
};

void even_costs(std::span<const PlannedSequence> minibatch, std::vector<std::uint32_t>& owner,
                std::uint32_t num_workers, const Cost& cost) {
  Loads loads(minibatch, owner, num_workers, cost);
  while (loads.even()) {
  }
}

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
  for (std::size_t j = 0; j < owner.size(); ++j) owner[j] = first_owner[j];
  if (rule.sharing == Sharing::kEvenCounts) even_counts(minibatch, owner, num_workers, rule);
  if (rule.sharing == Sharing::kEvenCosts) even_costs(minibatch, owner, num_workers, rule.cost);
  return owner;
}

std::vector<PlannedSequence> share_of(std::vector<PlannedSequence> minibatch,
                                      std::uint32_t num_workers, std::uint32_t rank,
                                      const ShareRule& rule) {
  if (num_workers == 1) return minibatch;
  if (rule.sharing == Sharing::kDeal || rule.sharing == Sharing::kLanes)
    return owned_by(rank, minibatch, FirstOwner(minibatch, num_workers, rule.sharing));
  return owned_by(rank, minibatch, owners(minibatch, num_workers, rule));
}

}  // namespace sweephand
