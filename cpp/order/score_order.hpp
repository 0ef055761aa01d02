// Scores of sequences, and the order that they give to shuffled items: docs/order.md, "Orders
// by score".
#pragma once

#include "index/chunk_table.hpp"
#include "order/permutation.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sweephand {

struct ScoreRules {
  // Of each sweep, in 2^-16, the last one for all later: 0 sorts, 2^16 leaves all as shuffled.
  std::vector<std::uint32_t> noises = {0};
  // Of every level in step 0 of a sweep, then in step 1, …: levels are drawn. Empty: ranks are
  // sorted.
  std::vector<std::uint32_t> odds;
  std::uint64_t until_sweep = UINT64_MAX;  // from there on all stays as shuffled
  bool over_sweep = true;                  // chunks have an order too, not only what they hold
};

// Part of a sweep, in 2^-20 of it, whose items are put in order together.
struct Stretch {
  static constexpr std::uint64_t kWhole = std::uint64_t{1} << 20;
  std::uint64_t sweep;
  std::uint64_t key;  // of what is drawn
  std::uint64_t begin = 0;
  std::uint64_t end = kWhole;
};

// Immutable; holds 4 bytes for each sequence.
class ScoreOrder {
 public:
  static constexpr std::uint64_t kSteps = 1024;
  static constexpr std::uint32_t kAllNoise = std::uint32_t{1} << 16;

  // `ranks` are those of all sequences of `chunks`: how many of them have a score that comes
  // before, or the level of each. Throws std::invalid_argument when there are others than one
  // for each, below their number, or the rules contradict themselves or them.
  ScoreOrder(const ChunkTable& chunks, std::vector<std::uint32_t> ranks, ScoreRules rules);

  std::uint64_t num_sequences() const noexcept { return ranks_.size(); }

  // Of a sequence.
  std::uint32_t rank(std::uint64_t sequence) const noexcept { return ranks_[sequence]; }

  // True if sequences, or chunks, of a sweep have an order by score.
  bool orders(std::uint64_t sweep) const noexcept;
  bool orders_chunks(std::uint64_t sweep) const noexcept {
    return rules_.over_sweep && orders(sweep);
  }

  // The stretch of a block of chunk places [begin, end) of `count`; the whole sweep where only
  // blocks are put in order.
  Stretch stretch_of(std::uint64_t sweep, std::uint64_t key, std::uint64_t begin,
                     std::uint64_t end, std::uint64_t count) const noexcept;

  // Of shuffled chunks, by the mean rank of their sequences. Linear.
  Permutation in_order(const Permutation& shuffled, const Stretch& stretch) const;

  // Replaces items by their ranks.
  using ToRanks = std::function<void(std::span<std::uint64_t> items)>;

  // Of shuffled items. Linear; 16 bytes an item while it works. REQUIRES: fewer than 2^32
  Permutation in_order(const Permutation& shuffled, const Stretch& stretch,
                       const ToRanks& to_ranks) const;

 private:
  std::uint32_t noise(std::uint64_t sweep) const noexcept;
  std::vector<std::uint32_t> sorted(std::vector<std::uint64_t> ranked,
                                    std::uint64_t noise) const;
  std::vector<std::uint32_t> drawn(std::span<const std::uint64_t> ranked,
                                   const Stretch& stretch) const;

  ScoreRules rules_;
  std::uint64_t num_levels_;  // 0: ranks are sorted
  std::vector<std::uint32_t> ranks_;
  std::vector<std::uint32_t> chunk_ranks_;  // the mean of each, rounded down
};

}  // namespace sweephand
