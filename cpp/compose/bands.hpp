// The sequences that a packer with limits may take next, by their main measure.
#pragma once

#include "compose/limited_pack.hpp"
#include "compose/sight.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

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
