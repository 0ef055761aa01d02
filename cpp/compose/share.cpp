#include "compose/share.hpp"

#include "base/mix.hpp"

#include <algorithm>

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

// The sequence of worker `from`, smaller than `gap`, whose size is nearest to half of it; the
// last one among equals. minibatch.size() if there is none.
std::size_t best_to_move(std::span<const PlannedSequence> minibatch,
                         std::span<const std::uint32_t> owner, std::uint32_t from,
                         std::uint64_t gap) {
  std::size_t best = minibatch.size();
  std::uint64_t least = gap;  // |2 size - gap| of a sequence in (0, gap) is below gap
  for (std::size_t j = 0; j < minibatch.size(); ++j) {
    const std::uint64_t twice = 2 * std::uint64_t{minibatch[j].size};
    const std::uint64_t distance = twice > gap ? twice - gap : gap - twice;
    if (owner[j] == from && minibatch[j].size < gap && distance <= least) {
      best = j;
      least = distance;
    }
  }
  return best;
}

void even_samples(std::span<const PlannedSequence> minibatch, std::vector<std::uint32_t>& owner,
                  std::uint32_t num_workers) {
  std::vector<std::uint64_t> load(num_workers);
  std::uint64_t total = 0;
  for (std::size_t j = 0; j < minibatch.size(); ++j) {
    load[owner[j]] += minibatch[j].size;
    total += minibatch[j].size;
  }
  while (true) {
    const auto fullest = std::max_element(load.begin(), load.end());  // the first of equals
    const auto emptiest = std::min_element(load.begin(), load.end());
    const std::uint64_t gap = *fullest - *emptiest;
    if (static_cast<uint128>(gap) * num_workers * 64 <= total) return;
    const auto from = static_cast<std::uint32_t>(fullest - load.begin());
    const std::size_t j = best_to_move(minibatch, owner, from, gap);
    if (j == minibatch.size()) return;
    owner[j] = static_cast<std::uint32_t>(emptiest - load.begin());
    *fullest -= minibatch[j].size;
    *emptiest += minibatch[j].size;
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

std::vector<PlannedSequence> share_of(std::span<const PlannedSequence> minibatch,
                                      std::uint32_t num_workers, std::uint32_t rank,
                                      Sharing sharing) {
  if (num_workers == 1) return {minibatch.begin(), minibatch.end()};
  const std::vector<std::uint32_t> owner = owners(minibatch, num_workers, sharing);
  std::vector<PlannedSequence> share;
  for (std::size_t j = 0; j < owner.size(); ++j) {
    if (owner[j] == rank) share.push_back(minibatch[j]);
  }
  return share;
}

}  // namespace sweephand
