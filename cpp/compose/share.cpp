#include "compose/share.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace sweephand {
namespace {

void even_counts(std::vector<std::uint32_t>& owner, std::uint32_t num_workers) {
  std::vector<std::uint64_t> wanted(num_workers, owner.size() / num_workers);
  for (std::size_t k = 0; k < owner.size() % num_workers; ++k) ++wanted[k];
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

// What the workers have, while sequences move from one to the other.
class Loads {
 public:
  Loads(std::span<const PlannedSequence> minibatch, std::vector<std::uint32_t>& owner,
        std::uint32_t num_workers)
      : minibatch_(minibatch), owner_(owner), loads_(num_workers) {
    for (std::size_t j = 0; j < minibatch.size(); ++j) {
      loads_[owner[j]] += minibatch[j].size;
      total_ += minibatch[j].size;
    }
    for (std::uint32_t k = 0; k < num_workers; ++k) by_load_.emplace(loads_[k], k);
  }

  // Moves one sequence from the fullest worker to the emptiest; of equals the lowest rank.
  // Returns whether there was need, and one that fits.
  bool even() {
    const auto [least, emptiest] = *by_load_.begin();
    const std::uint64_t most = by_load_.rbegin()->first;
    const std::uint32_t fullest = by_load_.lower_bound({most, 0})->second;
    const std::uint64_t gap = most - least;
    if (static_cast<uint128>(gap) * loads_.size() * 64 <= total_) return false;
    if (first_.empty()) list_members();
    std::uint32_t* const best = best_to_move(first_[fullest], gap);
    if (best == nullptr) return false;
    const std::uint32_t j = std::exchange(*best, next_[*best]);
    next_[j] = std::exchange(first_[emptiest], j);
    owner_[j] = emptiest;
    change(fullest, most - minibatch_[j].size);
    change(emptiest, least + minibatch_[j].size);
    return true;
  }

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};

  // Most workers give nothing: a list of each is made in one pass, without room of its own.
  void list_members() {
    first_.assign(loads_.size(), kEnd);
    next_.resize(minibatch_.size());
    for (std::uint32_t j = 0; j < next_.size(); ++j) {
      next_[j] = std::exchange(first_[owner_[j]], j);
    }
  }

  // The link to the one smaller than `gap` whose size is nearest to half of it; of equals the
  // last in the minibatch. Null if there is none.
  std::uint32_t* best_to_move(std::uint32_t& first, std::uint64_t gap) {
    std::uint32_t* best = nullptr;
    std::uint64_t nearest = gap;  // |2 size - gap| of a size in (0, gap) is below gap
    for (std::uint32_t* link = &first; *link != kEnd; link = &next_[*link]) {
      const std::uint64_t size = minibatch_[*link].size;
      const std::uint64_t distance = 2 * size > gap ? 2 * size - gap : gap - 2 * size;
      if (size >= gap || distance > nearest) continue;
      if (distance == nearest && best != nullptr && *best > *link) continue;
      best = link;
      nearest = distance;
    }
    return best;
  }

  void change(std::uint32_t worker, std::uint64_t load) {
    by_load_.erase({loads_[worker], worker});
    loads_[worker] = load;
    by_load_.emplace(load, worker);
  }

  std::span<const PlannedSequence> minibatch_;
  std::vector<std::uint32_t>& owner_;
  std::vector<std::uint64_t> loads_;  // in samples
  std::vector<std::uint32_t> first_;  // of what each worker has, in no order; kEnd for nothing
  std::vector<std::uint32_t> next_;   // the one behind each
  std::set<std::pair<std::uint64_t, std::uint32_t>> by_load_;
  std::uint64_t total_ = 0;
};

void even_samples(std::span<const PlannedSequence> minibatch, std::vector<std::uint32_t>& owner,
                  std::uint32_t num_workers) {
  Loads loads(minibatch, owner, num_workers);
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

std::vector<std::uint32_t> owners(std::span<const PlannedSequence> minibatch,
                                  std::uint32_t num_workers, Sharing sharing) {
  std::vector<std::uint32_t> owner(minibatch.size());
  const FirstOwner first_owner(minibatch, num_workers, sharing);
  for (std::size_t j = 0; j < owner.size(); ++j) owner[j] = first_owner[j];
  if (sharing == Sharing::kEvenCounts) even_counts(owner, num_workers);
  if (sharing == Sharing::kEvenSamples) even_samples(minibatch, owner, num_workers);
  return owner;
}

std::vector<PlannedSequence> share_of(std::vector<PlannedSequence> minibatch,
                                      std::uint32_t num_workers, std::uint32_t rank,
                                      Sharing sharing) {
  if (num_workers == 1) return minibatch;
  std::vector<PlannedSequence> share;
  const auto pick = [&](const auto& owner) {
    for (std::size_t j = 0; j < minibatch.size(); ++j) {
      if (owner[j] == rank) share.push_back(minibatch[j]);
    }
  };
  if (sharing == Sharing::kDeal || sharing == Sharing::kLanes) {
    pick(FirstOwner(minibatch, num_workers, sharing));
  } else {
    pick(owners(minibatch, num_workers, sharing));
  }
  return share;
}

}  // namespace sweephand
