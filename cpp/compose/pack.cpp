#include "compose/pack.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>

namespace sweephand {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// A set of small integers that finds the largest one below a bound: a tree of bits, 64 to a
// node.
class BitTree {
 public:
  explicit BitTree(std::size_t size) {
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size);
    } while (size > 1);
  }

  void insert(std::uint32_t item) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[item / 64];
      const bool known = word != 0;
      word |= std::uint64_t{1} << item % 64;
      if (known) return;
      item /= 64;
    }
  }

  // If `item` stays, nothing changes: the tree is told all the same, as a branch would be
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

// Places by ascending size, those of equal size in the order of the list: a radix sort, in as
// few passes as digits of 11 bits allow.
std::vector<std::uint32_t> by_size(std::span<const std::uint32_t> sizes) {
  const std::uint32_t largest = *std::ranges::max_element(sizes);
  const auto width = static_cast<unsigned>(std::bit_width(largest | 1));
  const unsigned passes = (width + 10) / 11;
  const unsigned bits = (width + passes - 1) / passes;
  const std::uint32_t mask = (1U << bits) - 1;
  std::vector<std::uint32_t> places(sizes.size());
  std::vector<std::uint32_t> sorted(sizes.size());
  std::iota(places.begin(), places.end(), 0U);
  for (unsigned shift = 0; shift < width; shift += bits) {
    std::vector<std::uint32_t> next(std::size_t{mask} + 2);
    for (const std::uint32_t size : sizes) ++next[(size >> shift & mask) + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (const std::uint32_t place : places) {
      sorted[next[sizes[place] >> shift & mask]++] = place;
    }
    std::swap(places, sorted);
  }
  return places;
}

// The sequences in sight. A rank is one of the different sizes, in ascending order; sequences
// of one rank come into sight, and are taken, in the order of the list.
class Sight {
 public:
  Sight(std::span<const std::uint32_t> sizes, std::uint32_t row_length)
      : places_(by_size(sizes)),
        ranks_(sizes.size()),
        taken_(sizes.size()),
        sizes_(std::min<std::size_t>(sizes.size(), row_length)),
        next_(sizes_.size() + 1) {
    std::uint32_t rank = 0;
    for (std::uint32_t i = 0; i < places_.size(); ++i) {
      const std::uint32_t size = sizes[places_[i]];
      rank += i > 0 && size != sizes_[rank];
      sizes_[rank] = size;
      next_[rank + 1] = i + 1;  // until the rank's last sequence is met
      ranks_[places_[i]] = rank;
    }
    sizes_.resize(rank + 1);
    in_sight_.resize(sizes_.size());
    tree_ = BitTree(sizes_.size() + 1);
    while (row_length >> shift_ > 4 * sizes_.size()) ++shift_;
    ranks_below_.resize((row_length >> shift_) + 2);
    for (const std::uint32_t size : sizes_) ++ranks_below_[(size >> shift_) + 1];
    std::partial_sum(ranks_below_.begin(), ranks_below_.end(), ranks_below_.begin());
  }

  std::uint64_t count() const { return count_; }
  std::uint32_t size(std::uint32_t rank) const { return sizes_[rank]; }

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

  // Takes the oldest sequence of a rank.
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

enum class Opening : std::uint8_t { kOldest, kLongest };

Rows pack(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
          std::uint64_t look_ahead, Opening opening) {
  Rows rows;
  if (sizes.empty()) return rows;
  rows.members.reserve(sizes.size());
  Sight sight(sizes, row_length);
  std::uint32_t next = 0;
  const auto top_up = [&] {
    while (sight.count() < look_ahead && next < sizes.size()) sight.add(next++);
  };
  top_up();
  while (sight.count() > 0) {
    std::uint32_t room = row_length;
    std::uint32_t rank =
        opening == Opening::kOldest ? sight.oldest() : sight.longest(row_length);
    while (rank != kNone) {
      rows.members.push_back(sight.take(rank));
      room -= sight.size(rank);
      top_up();
      rank = sight.longest(room);
    }
    rows.ends.push_back(static_cast<std::uint32_t>(rows.members.size()));
  }
  return rows;
}

}  // namespace

Rows pack_in_order(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                   std::uint64_t look_ahead) {
  return pack(sizes, row_length, look_ahead, Opening::kOldest);
}

Rows pack_longest_first(std::span<const std::uint32_t> sizes, std::uint32_t row_length) {
  Rows rows = pack(sizes, row_length, sizes.size(), Opening::kLongest);
  std::vector<std::uint32_t> row_of(sizes.size());
  std::vector<std::uint32_t> next(rows.ends.size());  // where the row's next member goes
  for (std::uint32_t row = 0, i = 0; row < rows.ends.size(); ++row) {
    next[row] = i;
    for (; i < rows.ends[row]; ++i) row_of[rows.members[i]] = row;
  }
  for (std::uint32_t place = 0; place < sizes.size(); ++place) {
    rows.members[next[row_of[place]]++] = place;
  }
  return rows;
}

}  // namespace sweephand
