#include "compose/boundaries.hpp"

#include "base/mix.hpp"
#include "index/sizes.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace sweephand {
namespace {

// The dynamic programme, one bucket more in each round. Entry j is for the first j sizes.
class Boundaries {
 public:
  explicit Boundaries(std::span<const SizeCount> sizes)
      : sizes_(sizes), counts_(sizes.size() + 1), best_(sizes.size() + 1, kNever) {
    for (std::size_t j = 0; j < sizes.size(); ++j) counts_[j + 1] = counts_[j] + sizes[j].count;
    best_[0] = 0;
  }

  void add_bucket() {
    before_ = best_;
    choices_.emplace_back(sizes_.size() + 1);
    best_[0] = kNever;
    fill(1, sizes_.size() + 1, 0, sizes_.size());
  }

  std::vector<std::uint32_t> walk_back() const {
    std::vector<std::uint32_t> ends;
    std::size_t j = sizes_.size();
    // NOLINTNEXTLINE(modernize-loop-convert): clang 14 does not compile a reversed view
    for (auto choice = choices_.rbegin(); choice != choices_.rend(); ++choice) {
      ends.push_back(sizes_[j - 1].size);
      j = (*choice)[j];
    }
    std::ranges::reverse(ends);
    return ends;
  }

 private:
  static constexpr uint128 kNever = ~uint128{0} >> 1;

  // Cells if sizes [i, j) share a bucket.
  uint128 cells(std::size_t i, std::size_t j) const {
    return uint128{sizes_[j - 1].size} * (counts_[j] - counts_[i]);
  }

  // Entries [first, last), whose choices lie in [least, most]: as the cost is Monge, the
  // smallest best choice never falls from one entry to the next.
  void fill(std::size_t first, std::size_t last, std::size_t least, std::size_t most) {
    if (first == last) return;
    const std::size_t j = first + (last - first) / 2;
    uint128 best = kNever;
    std::size_t choice = least;
    for (std::size_t i = least; i <= std::min(most, j - 1); ++i) {
      if (before_[i] == kNever) continue;
      const uint128 cost = before_[i] + cells(i, j);
      if (cost < best) {
        best = cost;
        choice = i;
      }
    }
    best_[j] = best;
    choices_.back()[j] = static_cast<std::uint32_t>(choice);
    fill(first, j, least, choice);
    fill(j + 1, last, choice, most);
  }

  std::span<const SizeCount> sizes_;
  std::vector<std::uint64_t> counts_;  // prefix sums
  std::vector<uint128> before_;        // with one bucket less
  std::vector<uint128> best_;
  std::vector<std::vector<std::uint32_t>> choices_;  // per bucket: the previous bucket's end
};

}  // namespace

std::vector<SizeCount> count_sizes(const Corpus& corpus) {
  if (const std::uint32_t common = corpus.sizes->common(); common != 0) {
    return {{.size = common, .count = corpus.chunks.num_sequences()}};
  }
  constexpr std::uint32_t kTable = 1U << 16;
  std::vector<std::uint64_t> small(kTable);
  std::map<std::uint32_t, std::uint64_t> large;
  walk_sizes(corpus, [&](std::uint64_t /*first*/, std::span<const std::uint32_t> sizes) {
    for (const std::uint32_t size : sizes) ++(size < kTable ? small[size] : large[size]);
  });
  std::vector<SizeCount> counts;
  for (std::uint32_t size = 0; size < kTable; ++size) {
    if (small[size] != 0) counts.push_back({.size = size, .count = small[size]});
  }
  for (const auto& [size, count] : large) counts.push_back({.size = size, .count = count});
  return counts;
}

std::vector<std::uint32_t> best_boundaries(std::span<const SizeCount> sizes,
                                           std::uint32_t num_buckets) {
  Boundaries boundaries(sizes);
  const std::size_t count = std::min<std::size_t>(num_buckets, sizes.size());
  for (std::size_t k = 0; k < count; ++k) boundaries.add_bucket();
  return boundaries.walk_back();
}

std::uint64_t padded_cells(std::span<const SizeCount> sizes,
                           std::span<const std::uint32_t> boundaries) {
  std::uint64_t cells = 0;
  for (const SizeCount& entry : sizes) {
    const auto boundary = std::ranges::lower_bound(boundaries, entry.size);
    cells = checked_add(cells, checked_mul(entry.count, *boundary));
  }
  return cells;
}

}  // namespace sweephand
