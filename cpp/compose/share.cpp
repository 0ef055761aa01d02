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
      : minibatch_(minibatch), owner_(owner), loads_(num_workers), members_(num_workers) {
    for (std::uint32_t j = 0; j < minibatch.size(); ++j) {
      loads_[owner[j]] += minibatch[j].size;
      members_[owner[j]].push_back(j);
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
    std::vector<std::uint32_t>& members = members_[fullest];
    const auto best = best_to_move(members, gap);
    if (best == members.end()) return false;
    const std::uint32_t j = *best;
    *best = members.back();
    members.pop_back();
    members_[emptiest].push_back(j);
    owner_[j] = emptiest;
    change(fullest, most - minibatch_[j].size);
    change(emptiest, least + minibatch_[j].size);
    return true;
  }

 private:
  using Members = std::vector<std::uint32_t>;

  // The one smaller than `gap` whose size is nearest to half of it; of equals the last in the
  // minibatch.
  Members::iterator best_to_move(Members& members, std::uint64_t gap) const {
    auto best = members.end();
    std::uint64_t nearest = gap;  // |2 size - gap| of a size in (0, gap) is below gap
    for (auto member = members.begin(); member != members.end(); ++member) {
      const std::uint64_t size = minibatch_[*member].size;
      const std::uint64_t distance = 2 * size > gap ? 2 * size - gap : gap - 2 * size;
      if (size >= gap || distance > nearest) continue;
      if (distance == nearest && best != members.end() && *best > *member) continue;
      best = member;
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
  std::vector<Members> members_;
  std::set<std::pair<std::uint64_t, std::uint32_t>> by_load_;
  std::uint64_t total_ = 0;
};

void even_samples(std::span<const PlannedSequence> minibatch, std::vector<std::uint32_t>& owner,
                  std::uint32_t num_workers) {
  Loads loads(minibatch, owner, num_workers);
  while (loads.even()) {
  }
}

}  // namespace

std::vector<std::uint32_t> owners(std::span<const PlannedSequence> minibatch,
                                  std::uint32_t num_workers, Sharing sharing) {
  std::vector<std::uint32_t> owner(minibatch.size());
  for (std::size_t j = 0; j < owner.size(); ++j) {
    owner[j] = (sharing == Sharing::kDeal ? static_cast<std::uint32_t>(j % num_workers)
                                          : minibatch[j].lane % num_workers);
  }
  if (sharing == Sharing::kEvenCounts) even_counts(owner, num_workers);
  if (sharing == Sharing::kEvenSamples) even_samples(minibatch, owner, num_workers);
  return owner;
}

std::vector<PlannedSequence> share_of(std::vector<PlannedSequence> minibatch,
                                      std::uint32_t num_workers, std::uint32_t rank,
                                      Sharing sharing) {
  if (num_workers == 1) return minibatch;
  const std::vector<std::uint32_t> owner = owners(minibatch, num_workers, sharing);
  std::vector<PlannedSequence> share;
  for (std::size_t j = 0; j < owner.size(); ++j) {
    if (owner[j] == rank) share.push_back(minibatch[j]);
  }
  return share;
}

}  // namespace sweephand
