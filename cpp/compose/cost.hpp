// The cost of a sequence for its worker, by its size and its carried items.
#pragma once

#include "base/mix.hpp"
#include "index/sizes.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace sweephand {

// The cost of every item of a carried stream.
struct ItemCost {
  std::shared_ptr<const Sizes> counts;  // items of every sequence of the corpus
  std::uint64_t per_item = 0;

  bool operator==(const ItemCost&) const = default;
};

// Integers, so that all workers agree. A sweep of 2^47 samples costs less than 2^80.
struct Cost {
  std::uint32_t per_sample = 1;
  bool is_quadratic = false;  // and 1 for any two samples, as attention has it

  std::vector<ItemCost> items{};

  uint128 operator()(std::uint32_t size) const noexcept {
    return uint128{size} * (std::uint64_t{per_sample} + (is_quadratic ? size : 0));
  }

  // Includes the carried items of the sequence, which come with its first piece.
  uint128 of(std::uint64_t sequence, std::uint32_t first, std::uint32_t size) const {
    uint128 cost = (*this)(size);
    if (first != 0) return cost;
    for (const ItemCost& item : items) {
      std::uint32_t count = 0;
      item.counts->read(sequence, {&count, 1});
      cost += uint128{count} * item.per_item;
    }
    return cost;
  }

  bool operator==(const Cost&) const = default;
};

}  // namespace sweephand
