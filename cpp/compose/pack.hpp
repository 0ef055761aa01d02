// Sequences joined into rows of fixed length, planned from lengths alone: docs/layouts.md,
// section 2.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

// The pieces that a packer may take next, found by size.
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

// Sequences by their places in the list that was packed, row after row.
struct Rows {
  std::vector<std::uint32_t> members;
  std::vector<std::uint32_t> ends;  // where each row ends in `members`
};

// Opens each row with the oldest of the `look_ahead` sequences in sight, then takes repeatedly
// the longest one in sight that fits. The sequences of a row are in the order in which they
// were taken; a sequence waits at most look_ahead - 1 rows. With look_ahead = 1 this is next
// fit. REQUIRES: 1 <= size <= row_length <= 2^31 for every size, fewer than 2^32 - 1 sizes,
// look_ahead >= 1
Rows pack_in_order(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                   std::uint64_t look_ahead);

// First fit decreasing: all sequences are in sight, and a row is opened with the longest. The
// sequences of a row are in the order of the list. REQUIRES: as above
Rows pack_longest_first(std::span<const std::uint32_t> sizes, std::uint32_t row_length);

// The same rows with their members in the order of the list.
Rows in_list_order(Rows rows);

// Rows within limits: docs/layouts.md, section 2.
//
// The items of one carried stream in each sequence, and the most of them in a row.
struct Load {
  std::span<const std::uint32_t> counts;  // of every sequence, 0 at least
  std::uint32_t limit = 0;
};

// As pack_longest_first, and as pack_in_order, with limits. Where nothing is carried, the rows
// are theirs. REQUIRES: as there; counts <= limit, 1 <= limit <= 2^31, as many counts as sizes
Rows pack_largest_first_within(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                               std::span<const Load> loads);
Rows pack_in_order_within(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                          std::span<const Load> loads, std::uint64_t look_ahead);

// The sequences that a packer with limits may take next, by their main measure.
// A measure of a sequence is its size, or its count of a load; each has the most that a row
// holds. A sequence is in the band of the measure that it has most of, in relation to that, and
// of how much it has of the other measures in relation to it, in eighths.
class Bands {
 public:
  static constexpr std::uint32_t kNone = BitTree::kNone;
  static constexpr std::uint32_t kSteps = 8;

  Bands(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
        std::span<const Load> loads);

  std::uint64_t count() const noexcept { return count_; }
  std::size_t num_measures() const noexcept { return limits_.size(); }
  std::uint32_t limit(std::size_t measure) const { return limits_[measure]; }
  std::uint32_t measure(std::uint32_t place, std::size_t measure) const {
    return measures_[measure][place];
  }
  bool fits(std::uint32_t place, std::span<const std::uint32_t> room) const;

  // A place, and the amount of its main measure in relation to the most of it.
  struct Offer {
    std::uint32_t place = kNone;
    std::uint32_t own = 0;
    std::uint32_t limit = 1;

    // REQUIRES: neither is none
    bool is_before(const Offer& other) const {
      const std::uint64_t mine = std::uint64_t{own} * other.limit;
      const std::uint64_t its = std::uint64_t{other.own} * limit;
      return mine != its ? mine > its : place < other.place;
    }
  };

  // Of all in sight.
  std::uint64_t total(std::size_t measure) const { return totals_[measure]; }

  // Brings a place of the list into sight. REQUIRES: places ascend
  void add(std::uint32_t place);
  // REQUIRES: count() > 0
  std::uint32_t oldest();
  // Takes a place that is the oldest, or was found.
  void take(std::uint32_t place);

  // The bands to ask: those that have more of a measure, for their size, than all in sight had
  // at the last update; those that have less; or all.
  enum class Side : std::uint8_t { kAll, kMore, kLess };
  void divide(std::size_t measure);

  // The largest that was found in a band, in relation to the most of its measure; of equal ones
  // the oldest. In every band that is the one with the most that fits, or, where its oldest has
  // too much of the others, the most that no other measure can prevent.
  Offer largest(std::span<const std::uint32_t> room, Side side = Side::kAll) const;

 private:
  struct Band {
    std::uint32_t measure = 0;
    std::uint32_t eighths = 0;
    bool has_more = false;
    std::vector<std::uint32_t> places;  // in the list
    std::vector<std::uint32_t> keys;    // what they have of the measure
    std::optional<Sight> sight;
  };

  Offer found_in(const Band& band, std::span<const std::uint32_t> room) const;
  Offer longest_in(const Band& band, std::uint32_t room) const;
  bool others_fit(const Band& band, std::uint32_t place,
                  std::span<const std::uint32_t> room) const;

  std::vector<std::span<const std::uint32_t>> measures_;
  std::vector<std::uint32_t> limits_;
  std::vector<Band> bands_;
  std::vector<std::uint8_t> band_of_;     // of each place
  std::vector<std::uint32_t> number_of_;  // of each place, in its band
  std::vector<std::uint8_t> taken_;
  std::vector<std::uint64_t> totals_;
  std::uint64_t count_ = 0;
  std::uint32_t oldest_ = 0;
};

}  // namespace sweephand
