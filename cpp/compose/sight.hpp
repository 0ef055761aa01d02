// What may come into a row: the sequences in sight, and the largest of them that fits.
#pragma once

#include "base/mix.hpp"
#include "compose/pack.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sweephand {

// A set of small integers that finds the largest one below a bound: a tree of bits, 64 to a
// node.
class BitTree {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

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

// Places by ascending size, those of equal size in the order of the list: a radix sort, in as
// few passes as digits of 14 bits allow.
inline std::vector<std::uint32_t> by_size(std::span<const std::uint32_t> sizes) {
  const std::uint32_t largest = *std::ranges::max_element(sizes);
  const auto width = static_cast<unsigned>(std::bit_width(largest | 1));
  const unsigned passes = (width + 13) / 14;
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

// The sequences of a list that are in sight. A rank is one of the different sizes, in ascending
// order; sequences of one rank come into sight, and are taken, in the order of the list.
class Sight {
 public:
  static constexpr std::uint32_t kNone = BitTree::kNone;

  // REQUIRES: at least one size; 1 <= size <= row_length
  Sight(std::span<const std::uint32_t> sizes, std::uint32_t row_length)
      : places_(by_size(sizes)),
        ranks_(sizes.size()),
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

  std::uint32_t size(std::uint32_t rank) const { return sizes_[rank]; }
  std::uint32_t rank(std::uint32_t place) const { return ranks_[place]; }

  // Brings a place of the list into sight. REQUIRES: places ascend
  void add(std::uint32_t place) {
    const std::uint32_t rank = ranks_[place];
    ++in_sight_[rank];
    tree_.insert(rank);
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
  void take(std::uint32_t rank) {
    ++next_[rank];
    tree_.erase(rank, --in_sight_[rank] != 0);
  }

 private:
  std::vector<std::uint32_t> places_;    // by size
  std::vector<std::uint32_t> ranks_;     // of each place
  std::vector<std::uint32_t> sizes_;     // of each rank
  std::vector<std::uint32_t> next_;      // of each rank, where its next sequence is in places_
  std::vector<std::uint32_t> in_sight_;  // of each rank, how many
  BitTree tree_{1};                      // ranks with a sequence in sight
  unsigned shift_ = 0;
  std::vector<std::uint32_t> ranks_below_;  // entry p: ranks with size >> shift_ below p
};

// The sequences that a packer with limits may take next, by their main measure.
// A measure of a sequence is its size, or its count of a load; each has the most that a row
// holds. A sequence is in the band of the measure that it has most of, in relation to that, and
// of how much it has of the other measures in relation to it, in eighths.
class Bands {
 public:
  static constexpr std::uint32_t kNone = BitTree::kNone;
  static constexpr std::uint32_t kSteps = 8;
  static constexpr std::uint8_t kNoBand = 255;

  Bands(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
        std::span<const Load> loads)
      : measures_{sizes},
        limits_{row_length},
        band_of_(sizes.size()),
        number_of_(sizes.size()),
        taken_(sizes.size()) {
    for (const Load& load : loads) {
      measures_.push_back(load.counts);
      limits_.push_back(load.limit);
    }
    totals_.resize(limits_.size());
    std::vector<std::uint8_t> known(limits_.size() * (kSteps + 1), kNoBand);
    for (std::uint32_t place = 0; place < sizes.size(); ++place) {
      std::uint32_t most = 0;
      for (std::uint32_t m = 1; m < limits_.size(); ++m) {
        if (std::uint64_t{measures_[m][place]} * limits_[most] >
            std::uint64_t{measures_[most][place]} * limits_[m])
          most = m;
      }
      const std::uint64_t key = measures_[most][place];
      std::uint64_t eighths = 0;
      for (std::uint32_t m = 0; m < limits_.size(); ++m) {
        if (m == most || measures_[m][place] == 0) continue;
        const uint128 whole = uint128{key} * limits_[m];
        const uint128 part = uint128{measures_[m][place]} * limits_[most] * kSteps;
        eighths = std::max(eighths, static_cast<std::uint64_t>((part + whole - 1) / whole));
      }
      std::uint8_t& number = known[most * (kSteps + 1) + eighths];
      if (number == kNoBand) {
        number = static_cast<std::uint8_t>(bands_.size());
        bands_.push_back({.measure = most, .eighths = static_cast<std::uint32_t>(eighths)});
      }
      Band& band = bands_[number];
      band_of_[place] = number;
      number_of_[place] = static_cast<std::uint32_t>(band.places.size());
      band.places.push_back(place);
      band.keys.push_back(static_cast<std::uint32_t>(key));
    }
    for (Band& band : bands_) band.sight.emplace(band.keys, limits_[band.measure]);
  }

  std::uint64_t count() const noexcept { return count_; }
  std::size_t num_measures() const noexcept { return limits_.size(); }
  std::uint32_t limit(std::size_t measure) const { return limits_[measure]; }
  std::uint32_t measure(std::uint32_t place, std::size_t measure) const {
    return measures_[measure][place];
  }
  bool fits(std::uint32_t place, std::span<const std::uint32_t> room) const {
    for (std::size_t m = 0; m < limits_.size(); ++m) {
      if (measures_[m][place] > room[m]) return false;
    }
    return true;
  }

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
  void add(std::uint32_t place) {
    bands_[band_of_[place]].sight->add(number_of_[place]);
    for (std::size_t m = 0; m < limits_.size(); ++m) totals_[m] += measures_[m][place];
    ++count_;
  }
  // REQUIRES: count() > 0
  std::uint32_t oldest() {
    while (taken_[oldest_] != 0) ++oldest_;
    return oldest_;
  }
  // Takes a place that is the oldest, or was found.
  void take(std::uint32_t place) {
    Sight& sight = *bands_[band_of_[place]].sight;
    sight.take(sight.rank(number_of_[place]));
    for (std::size_t m = 0; m < limits_.size(); ++m) totals_[m] -= measures_[m][place];
    taken_[place] = 1;
    --count_;
  }

  // The bands to ask: those that have more of a measure, for their size, than all in sight had
  // at the last update; those that have less; or all.
  enum class Side : std::uint8_t { kAll, kMore, kLess };
  void divide(std::size_t measure) {
    // The ratio of the measure to the size over all in sight, each relative to its limit.
    const uint128 have = uint128{totals_[measure]} * limits_[0];
    const uint128 size = uint128{totals_[0]} * limits_[measure];
    for (Band& band : bands_) {
      const bool is_own = band.measure == measure;
      band.has_more =
          is_own ? kSteps * size > band.eighths * have : band.eighths * size > kSteps * have;
    }
  }

  // The largest that was found in a band, in relation to the most of its measure; of equal ones
  // the oldest. In every band that is the one with the most that fits, or, where its oldest has
  // too much of the others, the most that no other measure can prevent.
  Offer largest(std::span<const std::uint32_t> room, Side side = Side::kAll) const {
    Offer largest;
    for (const Band& band : bands_) {
      if (side != Side::kAll && band.has_more != (side == Side::kMore)) continue;
      const Offer found = found_in(band, room);
      if (found.place == kNone) continue;
      if (largest.place == kNone || found.is_before(largest)) largest = found;
    }
    return largest;
  }

 private:
  struct Band {
    std::uint32_t measure = 0;
    std::uint32_t eighths = 0;
    bool has_more = false;
    std::vector<std::uint32_t> places;  // in the list
    std::vector<std::uint32_t> keys;    // what they have of the measure
    std::optional<Sight> sight;
  };

  bool others_fit(const Band& band, std::uint32_t place,
                  std::span<const std::uint32_t> room) const {
    for (std::size_t m = 0; m < limits_.size(); ++m) {
      if (m != band.measure && measures_[m][place] > room[m]) return false;
    }
    return true;
  }

  Offer longest_in(const Band& band, std::uint32_t room) const {
    const std::uint32_t rank = band.sight->longest(room);
    if (rank == Sight::kNone) return {};
    return {.place = band.places[band.sight->first_of(rank)],
            .own = band.sight->size(rank),
            .limit = limits_[band.measure]};
  }

  Offer found_in(const Band& band, std::span<const std::uint32_t> room) const {
    const std::uint32_t own = room[band.measure];
    const Offer longest = longest_in(band, own);
    if (longest.place == kNone || others_fit(band, longest.place, room)) return longest;
    uint128 most = own;
    for (std::size_t m = 0; m < limits_.size(); ++m) {
      if (m == band.measure) continue;
      most = std::min(most, uint128{room[m]} * limits_[band.measure] * kSteps /
                                (uint128{band.eighths} * limits_[m]));
    }
    return longest_in(band, static_cast<std::uint32_t>(most));
  }

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
