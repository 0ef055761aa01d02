#include "compose/share.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

namespace sweephand {
namespace {

// What workers have of a minibatch while sequences move from one to another: docs/order.md,
// section 7.
// The worker who has a lane, or a turn, before any sequence moves.
inline std::uint32_t first_owner(std::size_t lane, std::uint32_t num_workers) noexcept {
  // Mostly there are as many lanes: a division takes longer than all else.
  if (lane < num_workers) return static_cast<std::uint32_t>(lane);
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there is a worker
  return static_cast<std::uint32_t>(lane % num_workers);
}

class Loads {
 public:
  // Of a minibatch in order.
  Loads(std::span<const PlannedSequence> minibatch, std::uint32_t num_workers,
        const Cost& cost);

  // Moves one sequence from the fullest worker to the emptiest; of equals the lowest rank.
  // Returns whether there was need, and one that fits.
  bool even();

  // The worker of each sequence.
  std::vector<std::uint32_t> owners() const;

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};

  struct Worker {
    uint128 load = 0;
    std::uint64_t samples = 0;   // before any is moved
    std::uint32_t first = kEnd;  // of what it has, in no order
  };

  void give();
  void add(std::uint32_t worker, std::uint32_t j) noexcept {
    next_[j] = std::exchange(workers_[worker].first, j);
  }
  uint128 cost_of(std::uint32_t j) const {
    return cost_.of(minibatch_[j].sequence, 0, minibatch_[j].size);
  }
  std::uint32_t* best_to_move(std::uint32_t& first, uint128 gap);
  void change(std::uint32_t worker, uint128 load);

  std::span<const PlannedSequence> minibatch_;
  Cost cost_;
  std::vector<std::uint32_t> next_;  // the one behind each that its worker has; or kEnd
  std::vector<Worker> workers_;
  std::set<std::pair<uint128, std::uint32_t>> by_load_;
  uint128 total_ = 0;
};

Loads::Loads(std::span<const PlannedSequence> minibatch, std::uint32_t num_workers,
             const Cost& cost)
    : minibatch_(minibatch), cost_(cost), next_(minibatch.size()), workers_(num_workers) {
  give();
  for (std::uint32_t k = 0; k < num_workers; ++k) {
    total_ += workers_[k].load;
    by_load_.emplace(workers_[k].load, k);
  }
}

// Everything about a sequence in one pass: a minibatch of the whole cluster is larger than the
// processor's cache.
void Loads::give() {
  const auto num_workers = static_cast<std::uint32_t>(workers_.size());
  const bool is_linear = !cost_.is_quadratic && cost_.items.empty();
  for (std::uint32_t j = 0; j < next_.size(); ++j) {
    const std::uint32_t k = first_owner(minibatch_[j].lane, num_workers);
    add(k, j);
    if (is_linear) {
      workers_[k].samples += minibatch_[j].size;
    } else {
      workers_[k].load += cost_of(j);
    }
  }
  if (!is_linear) return;
  // In proportion to samples, whose sums fit a word.
  for (Worker& worker : workers_) worker.load = uint128{worker.samples} * cost_.per_sample;
}

bool Loads::even() {
  const auto [least, emptiest] = *by_load_.begin();
  const uint128 most = by_load_.rbegin()->first;
  const std::uint32_t fullest = by_load_.lower_bound({most, 0})->second;
  const uint128 gap = most - least;
  if (gap * workers_.size() * 64 <= total_) return false;
  std::uint32_t* const best = best_to_move(workers_[fullest].first, gap);
  if (best == nullptr) return false;
  const std::uint32_t j = std::exchange(*best, next_[*best]);
  add(emptiest, j);
  change(fullest, most - cost_of(j));
  change(emptiest, least + cost_of(j));
  return true;
}

// The link to the sequence whose cost is below `gap` and nearest to half of it; of equals the
// last in the minibatch. Null if there is none.
std::uint32_t* Loads::best_to_move(std::uint32_t& first, uint128 gap) {
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

void Loads::change(std::uint32_t worker, uint128 load) {
  by_load_.erase({workers_[worker].load, worker});
  workers_[worker].load = load;
  by_load_.emplace(load, worker);
}

std::vector<std::uint32_t> Loads::owners() const {
  std::vector<std::uint32_t> owners(next_.size());
  for (std::uint32_t k = 0; k < workers_.size(); ++k) {
    for (std::uint32_t j = workers_[k].first; j != kEnd; j = next_[j]) owners[j] = k;
  }
  return owners;
}

std::vector<std::uint64_t> equal_counts(std::size_t count, std::uint32_t num_workers) {
  std::vector<std::uint64_t> wanted(num_workers, count / num_workers);
  for (std::size_t k = 0; k < count % num_workers; ++k) ++wanted[k];
  return wanted;
}

// Workers with too many give their last sequences, lowest rank first.
void even_counts_in_turn(std::vector<std::uint32_t>& owner, std::uint32_t num_workers) {
  std::vector<std::uint64_t> wanted = equal_counts(owner.size(), num_workers);
  std::vector<std::size_t> surplus;
  for (std::size_t j = 0; j < owner.size(); ++j) {
    if (wanted[owner[j]] == 0) {
      surplus.push_back(j);
    } else {
      --wanted[owner[j]];
    }
  }
  std::uint32_t taker = 0;
  for (const std::size_t j : surplus) {
    while (wanted[taker] == 0) ++taker;
    owner[j] = taker;
    --wanted[taker];
  }
}

// The workers in the order in which each takes from the next: those that get more first.
std::vector<std::uint32_t> workers_in_line(std::size_t count, std::uint32_t num_workers,
                                           const ShareRule& rule) {
  std::vector<std::uint32_t> line(num_workers);
  std::iota(line.begin(), line.end(), 0U);
  const auto get_more = static_cast<std::ptrdiff_t>(count % num_workers);
  if (!rule.first_half && rule.num_lanes % num_workers == 0)
    std::reverse(line.begin() + get_more, line.end());
  return line;
}

// The numbers below `count`, each far from those before it: 0, then the middle, then the
// quarters, ...
std::vector<std::uint32_t> spread(std::uint32_t count) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(count);
  std::vector<bool> is_known(count);
  const auto bits = static_cast<unsigned>(std::bit_width(count - 1));
  for (std::uint64_t i = 0; i < std::uint64_t{1} << bits; ++i) {
    std::uint64_t reversed = 0;
    for (unsigned bit = 0; bit < bits; ++bit) reversed |= (i >> bit & 1) << (bits - 1 - bit);
    const std::uint64_t number = reversed * count >> bits;
    if (!is_known[number]) numbers.push_back(static_cast<std::uint32_t>(number));
    is_known[number] = true;
  }
  return numbers;
}

// The lanes of each worker, in the order of `line`; those that it gives from come first.
std::vector<std::uint32_t> lanes_in_line(std::span<const std::uint32_t> line,
                                         std::uint32_t num_lanes) {
  const auto num_workers = static_cast<std::uint32_t>(line.size());
  std::vector<std::uint32_t> lanes;
  lanes.reserve(num_lanes);
  for (const std::uint32_t worker : line) {
    if (worker >= num_lanes) continue;
    const std::uint32_t count = (num_lanes - worker - 1) / num_workers + 1;
    for (const std::uint32_t number : spread(count))
      lanes.push_back(worker + (count - 1 - number) * num_workers);
  }
  return lanes;
}

// All sequences are in one line, lane after lane, and each worker takes the next: where shares
// are not even, neighbours in line have a lane in common, the same from minibatch to minibatch.
void even_counts_by_lanes(std::span<const PlannedSequence> minibatch,
                          std::vector<std::uint32_t>& owner, std::uint32_t num_workers,
                          const ShareRule& rule) {
  const std::vector<std::uint64_t> wanted = equal_counts(owner.size(), num_workers);
  std::vector<std::uint64_t> found(num_workers);
  for (const std::uint32_t worker : owner) ++found[worker];
  if (found == wanted) return;
  struct Lane {
    std::uint64_t size = 0;
    std::uint64_t next = 0;  // place in line of its next sequence, the last one first
    std::size_t taker = 0;   // place in line of the worker that takes it
  };
  std::vector<Lane> lanes(rule.num_lanes);
  for (const PlannedSequence& one : minibatch) ++lanes[one.lane].size;
  const std::vector<std::uint32_t> line = workers_in_line(owner.size(), num_workers, rule);
  std::vector<std::uint64_t> ends(num_workers);
  std::transform(line.begin(), line.end(), ends.begin(), [&](auto k) { return wanted[k]; });
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::uint64_t place = 0;
  std::size_t taker = 0;
  for (const std::uint32_t number : lanes_in_line(line, rule.num_lanes)) {
    while (taker + 1 < num_workers && ends[taker] <= place) ++taker;
    lanes[number].next = place;
    lanes[number].taker = taker;
    place += lanes[number].size;
  }
  for (std::size_t j = owner.size(); j-- > 0;) {
    Lane& lane = lanes[minibatch[j].lane];
    while (ends[lane.taker] <= lane.next) ++lane.taker;
    owner[j] = line[lane.taker];
    ++lane.next;
  }
}

// With fewer than three lanes for two workers, a common lane is most of what a worker has.
bool has_common_lanes(std::uint32_t num_workers, const ShareRule& rule) {
  return std::uint64_t{2} * rule.num_lanes >= std::uint64_t{3} * num_workers;
}

// Shares of equal numbers of sequences: docs/order.md, section 7.
// Moves sequences from workers that have too many to others, so that worker k of K has m div K
// + (k < m mod K) of m. `owner` is the worker of each by its lane. Linear in the sequences and
// lanes. REQUIRES: every lane is below rule.num_lanes
void even_counts(std::span<const PlannedSequence> minibatch, std::vector<std::uint32_t>& owner,
                 std::uint32_t num_workers, const ShareRule& rule) {
  if (has_common_lanes(num_workers, rule)) {
    even_counts_by_lanes(minibatch, owner, num_workers, rule);
  } else {
    even_counts_in_turn(owner, num_workers);
  }
}

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
  if (rule.sharing == Sharing::kEvenCosts) {
    Loads loads(minibatch, num_workers, rule.cost);
    while (loads.even()) {
    }
    return loads.owners();
  }
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
