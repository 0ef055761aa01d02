#include "compose/limited_pack.hpp"

#include "base/mix.hpp"
#include "compose/bands.hpp"

#include <algorithm>

namespace sweephand {
namespace {

constexpr std::uint32_t kLastPart = 8;  // of a row: the rest of it is filled by size alone

class LimitedPacker {
 public:
  LimitedPacker(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                std::span<const Load> loads, std::uint64_t look_ahead)
      : bands_(sizes, row_length, loads),
        num_places_(static_cast<std::uint32_t>(sizes.size())),
        look_ahead_(look_ahead),
        room_(bands_.num_measures()) {}

  Rows pack(bool longest_first) {
    Rows rows;
    rows.members.reserve(num_places_);
    top_up();
    while (bands_.count() > 0) {
      open_row();
      std::uint32_t place = longest_first ? bands_.largest(room_).place : bands_.oldest();
      while (place != Bands::kNone) {
        rows.members.push_back(place);
        for (std::size_t m = 0; m < room_.size(); ++m) room_[m] -= bands_.measure(place, m);
        bands_.take(place);
        top_up();
        place = next();
      }
      rows.ends.push_back(static_cast<std::uint32_t>(rows.members.size()));
    }
    return rows;
  }

 private:
  void top_up() {
    while (bands_.count() < look_ahead_ && next_ < num_places_) bands_.add(next_++);
  }

  // The scarcest load decides which sequences have much.
  void open_row() {
    for (std::size_t m = 0; m < room_.size(); ++m) room_[m] = bands_.limit(m);
    scarcest_ = 1;
    for (std::size_t m = 2; m < room_.size(); ++m) {
      if (uint128{bands_.total(m)} * bands_.limit(scarcest_) >
          uint128{bands_.total(scarcest_)} * bands_.limit(m))
        scarcest_ = m;
    }
    load_ = bands_.total(scarcest_);
    size_ = bands_.total(0);
    bands_.divide(scarcest_);
  }

  // While there is room for several, those that bring the row to the ratio of all in sight.
  std::uint32_t next() const {
    bool is_last_part = false;
    for (std::size_t m = 0; m < room_.size(); ++m)
      is_last_part = is_last_part || room_[m] < bands_.limit(m) / kLastPart;
    if (!is_last_part) {
      const std::uint64_t load = bands_.limit(scarcest_) - room_[scarcest_];
      const std::uint64_t size = bands_.limit(0) - room_[0];
      const bool has_less = uint128{load} * size_ < uint128{size} * load_;
      const std::uint32_t place =
          bands_.largest(room_, has_less ? Bands::Side::kMore : Bands::Side::kLess).place;
      if (place != Bands::kNone) return place;
    }
    return bands_.largest(room_).place;
  }

  Bands bands_;
  std::uint32_t num_places_;
  std::uint64_t look_ahead_;
  std::vector<std::uint32_t> room_;  // of each measure, in the open row
  std::size_t scarcest_ = 1;
  std::uint64_t load_ = 0;  // of the scarcest, and
  std::uint64_t size_ = 0;  // of all in sight when the row was opened
  std::uint32_t next_ = 0;  // the first place that was not in sight
};

bool is_any_loaded(std::span<const Load> loads) {
  return std::ranges::any_of(loads, [](const Load& load) {
    return std::ranges::any_of(load.counts, [](std::uint32_t count) { return count != 0; });
  });
}

}  // namespace

Rows pack_largest_first_within(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                               std::span<const Load> loads) {
  if (!is_any_loaded(loads)) return pack_longest_first(sizes, row_length);
  return in_list_order(LimitedPacker(sizes, row_length, loads, sizes.size()).pack(true));
}

Rows pack_in_order_within(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                          std::span<const Load> loads, std::uint64_t look_ahead) {
  if (!is_any_loaded(loads)) return pack_in_order(sizes, row_length, look_ahead);
  return LimitedPacker(sizes, row_length, loads, look_ahead).pack(false);
}

}  // namespace sweephand
