// The pieces that a packer may take next, found by size.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sweephand {

// A set of small integers that finds the largest one below a bound: a tree of bits, 64 to a
// node.
class BitTree {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  explicit BitTree(std::size_t size);

  void insert(std::uint32_t item) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[item / 64];
      const bool known = word != 0;
      word |= std::uint64_t{1} << item % 64;
      if (known) return;
      item /= 64;
    }
  }

  // If `item` stays, nothing changes: the tree is updated all the same, as a branch would be
  // mispredicted.
  void erase(std::uint32_t item, bool stays) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[item / 64];
      word &= ~(std::uint64_t{!stays} << item % 64);
      if (word != 0) return;
      item /= 64;
    }
  }

  // kNone if there is none. REQUIRES: bound < the size given, rounded up to a multiple of 64
  std::uint32_t largest_below(std::uint32_t bound) const {
    for (std::size_t height = 0; height < levels_.size(); ++height) {
      const std::uint64_t below = (std::uint64_t{1} << bound % 64) - 1;
      const std::uint64_t word = levels_[height][bound / 64] & below;
      bound /= 64;
      if (word == 0) continue;
      std::uint32_t item = bound * 64 + last_bit(word);
      while (height-- > 0) item = item * 64 + last_bit(levels_[height][item]);
      return item;
    }
    return kNone;
  }

 private:
  static std::uint32_t last_bit(std::uint64_t word) {
    return 63U - static_cast<std::uint32_t>(std::countl_zero(word));
  }

  std::vector<std::vector<std::uint64_t>> levels_;
};

// The sequences of a list that are in sight. A rank is one of the different sizes, in ascending
// order; sequences of one rank come into sight, and are taken, in the order of the list.
class Sight {
 public:
  static constexpr std::uint32_t kNone = BitTree::kNone;

  // REQUIRES: at least one size; 1 <= size <= row_length
  Sight(std::span<const std::uint32_t> sizes, std::uint32_t row_length);

  std::uint64_t count() const noexcept { return count_; }
  std::uint32_t size(std::uint32_t rank) const { return sizes_[rank]; }
  std::uint32_t rank(std::uint32_t place) const { return ranks_[place]; }
  bool has(std::uint32_t rank) const { return in_sight_[rank] != 0; }

  // Brings a place of the list into sight. REQUIRES: places ascend
  void add(std::uint32_t place) {
    const std::uint32_t rank = ranks_[place];
    ++in_sight_[rank];
    tree_.insert(rank);
    ++count_;
  }

  // Rank of the oldest sequence. REQUIRES: count() > 0
  std::uint32_t oldest() {
    while (taken_[oldest_] != 0) ++oldest_;
    return ranks_[oldest_];
  }

  // Rank of the longest sequence that fits into `room`; kNone if there is none. REQUIRES: room
  // <= row_length
  std::uint32_t longest(std::uint32_t room) const {
    const std::uint32_t part = room >> shift_;
    if (shift_ == 0) return tree_.largest_below(ranks_below_[part + 1]);
    const auto too_long = std::upper_bound(sizes_.begin() + ranks_below_[part],
                                           sizes_.begin() + ranks_below_[part + 1], room);
    return tree_.largest_below(static_cast<std::uint32_t>(too_long - sizes_.begin()));
  }

  // The place of the oldest sequence of a rank. REQUIRES: one is in sight
  std::uint32_t first_of(std::uint32_t rank) const { return places_[next_[rank]]; }

  // Takes the oldest sequence of a rank. REQUIRES: one is in sight
  std::uint32_t take(std::uint32_t rank) {
    const std::uint32_t place = places_[next_[rank]++];
    tree_.erase(rank, --in_sight_[rank] != 0);
    --count_;
    taken_[place] = 1;
    return place;
  }

 private:
  std::vector<std::uint32_t> places_;    // by size
  std::vector<std::uint32_t> ranks_;     // of each place
  std::vector<std::uint8_t> taken_;      // whether, of each place
  std::vector<std::uint32_t> sizes_;     // of each rank
  std::vector<std::uint32_t> next_;      // of each rank, where its next sequence is in places_
  std::vector<std::uint32_t> in_sight_;  // of each rank, how many
  BitTree tree_{1};                      // ranks with a sequence in sight
  unsigned shift_ = 0;
  std::vector<std::uint32_t> ranks_below_;  // entry p: ranks with size >> shift_ below p
  std::uint32_t oldest_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace sweephand
