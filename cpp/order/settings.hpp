// The settings that decide the order, beside the corpus: docs/order.md.
#pragma once

#include <cstdint>
#include <memory>

namespace sweephand {

class ScoreOrder;

struct OrderSettings {
  std::uint64_t seed = 0;
  std::uint32_t num_lanes = 48;
  std::uint64_t window_chunks = 0;  // 0: not given
  std::uint64_t window_samples =
      0;                  // 0: not given; without either, one block covers the corpus
  bool randomize = true;  // false: storage order, and one lane
  std::shared_ptr<const ScoreOrder> scores;  // null: none; else one lane

  // Rows, buckets and shares follow the list of a sweep, which has one lane.
  bool keeps_order() const noexcept { return !randomize || scores != nullptr; }
};

inline constexpr std::uint64_t kOrderVersion = 1;

}  // namespace sweephand
