// The least of many keys, of which one changes at a time.
//
//            3              each node holds the lesser of the two below it, so that a change
//        3       5          takes one comparison per doubling, and no branch
//      7   3   9   5
#pragma once

#include "base/mix.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sweephand {

class KeyTree {
 public:
  static constexpr std::uint64_t kNever = UINT64_MAX;  // greater than all keys

  // Keys of numbers below `size`, which is 2^32 at most, all kNever.
  explicit KeyTree(std::size_t size)
      : num_leaves_(std::bit_ceil(std::max<std::size_t>(size, 1))),
        nodes_(2 * num_leaves_, ~uint128{0}) {}

  void set(std::uint32_t number, std::uint64_t key) noexcept {
    uint128 node = uint128{key} << 32 | number;
    for (std::size_t place = num_leaves_ + number; place > 1; place /= 2) {
      nodes_[place] = node;
      node = std::min(node, nodes_[place ^ 1]);
    }
    nodes_[1] = node;
  }

  // Of equal keys that of the least number.
  std::uint64_t least_key() const noexcept {
    return static_cast<std::uint64_t>(nodes_[1] >> 32);
  }
  std::uint32_t least() const noexcept { return static_cast<std::uint32_t>(nodes_[1]); }

 private:
  // One number of key and number, as of two a comparison is a branch that nothing could
  // foretell.
  std::size_t num_leaves_;
  std::vector<uint128> nodes_;  // the root is node 1
};

}  // namespace sweephand
