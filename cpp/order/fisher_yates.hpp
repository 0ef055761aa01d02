// A Fisher-Yates shuffle, done only as far as needed: docs/order.md, section 2.
#pragma once

#include "base/mix.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace sweephand {

// Deals items from the last place down: dealt places are final, and the rest is in no order
// yet.
template <class Item>
class FisherYates {
 public:
  FisherYates(std::span<Item> items, std::uint64_t key)
      : items_(items), key_(key), left_(items.size()) {}

  // Places from here on were dealt.
  std::size_t left() const noexcept { return left_; }

  // REQUIRES: place <= left()
  void deal_down_to(std::size_t place) noexcept {
    for (std::size_t i = left_; i-- > place;) {
      std::swap(items_[i], items_[scale(mix64(key_ + kGolden * i), i + 1)]);
    }
    left_ = place;
  }

 private:
  std::span<Item> items_;
  std::uint64_t key_;
  std::size_t left_;
};

}  // namespace sweephand
