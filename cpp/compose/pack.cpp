#include "compose/pack.hpp"

#include "base/mix.hpp"

#include <numeric>
#include <utility>

namespace sweephand {
namespace {

// Places by ascending size, those of equal size in the order of the list: a radix sort, in as
// few passes as digits of 14 bits allow.
std::vector<std::uint32_t> by_size(std::span<const std::uint32_t> sizes) {
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
    while (rank != Sight::kNone) {
      rows.members.push_back(sight.take(rank));
      room -= sight.size(rank);
      top_up();
      rank = sight.longest(room);
    }
    rows.ends.push_back(static_cast<std::uint32_t>(rows.members.size()));
  }
  return rows;
}

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

constexpr std::uint8_t kNoBand = 255;

}  // namespace

BitTree::BitTree(std::size_t size) {
  do {
    size = (size + 63) / 64;
    levels_.emplace_back(size);
  } while (size > 1);
}

Sight::Sight(std::span<const std::uint32_t> sizes, std::uint32_t row_length)
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

Rows pack_in_order(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                   std::uint64_t look_ahead) {
  return pack(sizes, row_length, look_ahead, Opening::kOldest);
}

Rows pack_longest_first(std::span<const std::uint32_t> sizes, std::uint32_t row_length) {
  if (row_length / 4 > sizes.size())
    return in_list_order(pack(sizes, row_length, sizes.size(), Opening::kLongest));
  // Rows take sizes; the sequences of a size go to the rows that took it, in their order.
  std::vector<std::uint32_t> ends(std::size_t{row_length} + 1);
  for (const std::uint32_t size : sizes) ++ends[size];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<std::uint32_t> next(ends.size());  // of each size, the first that no row took
  BitTree left(ends.size() + 1);
  for (std::uint32_t size = 1; size <= row_length; ++size) {
    next[size] = ends[size - 1];
    if (next[size] != ends[size]) left.insert(size);
  }
  std::vector<std::uint32_t> takers(sizes.size());  // rows, by size
  Rows rows;
  std::uint32_t taken = 0;
  while (taken < sizes.size()) {
    std::uint32_t room = row_length;
    const auto row = static_cast<std::uint32_t>(rows.ends.size());
    for (std::uint32_t size = left.largest_below(room + 1); size != BitTree::kNone;
         size = left.largest_below(room + 1)) {
      takers[next[size]++] = row;
      left.erase(size, next[size] != ends[size]);
      room -= size;
      ++taken;
    }
    rows.ends.push_back(taken);
  }
  std::vector<std::uint32_t> place(rows.ends.size());  // of each row's next member
  for (std::size_t row = 1; row < place.size(); ++row) place[row] = rows.ends[row - 1];
  for (std::size_t size = ends.size(); --size > 0;) next[size] = ends[size - 1];
  rows.members.resize(sizes.size());
  for (std::uint32_t i = 0; i < sizes.size(); ++i)
    rows.members[place[takers[next[sizes[i]]++]]++] = i;
  return rows;
}

Rows in_list_order(Rows rows) {
  std::vector<std::uint32_t> row_of(rows.members.size());
  std::vector<std::uint32_t> next(rows.ends.size());  // where the row's next member goes
  for (std::uint32_t row = 0, i = 0; row < rows.ends.size(); ++row) {
    next[row] = i;
    for (; i < rows.ends[row]; ++i) row_of[rows.members[i]] = row;
  }
  for (std::uint32_t place = 0; place < row_of.size(); ++place) {
    rows.members[next[row_of[place]]++] = place;
  }
  return rows;
}

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

Bands::Bands(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
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

void Bands::add(std::uint32_t place) {
  bands_[band_of_[place]].sight->add(number_of_[place]);
  for (std::size_t m = 0; m < limits_.size(); ++m) totals_[m] += measures_[m][place];
  ++count_;
}

std::uint32_t Bands::oldest() {
  while (taken_[oldest_] != 0) ++oldest_;
  return oldest_;
}

void Bands::take(std::uint32_t place) {
  Sight& sight = *bands_[band_of_[place]].sight;
  sight.take(sight.rank(number_of_[place]));
  for (std::size_t m = 0; m < limits_.size(); ++m) totals_[m] -= measures_[m][place];
  taken_[place] = 1;
  --count_;
}

void Bands::divide(std::size_t measure) {
  // The ratio of the measure to the size over all in sight, each relative to its limit.
  const uint128 have = uint128{totals_[measure]} * limits_[0];
  const uint128 size = uint128{totals_[0]} * limits_[measure];
  for (Band& band : bands_) {
    const bool is_own = band.measure == measure;
    band.has_more =
        is_own ? kSteps * size > band.eighths * have : band.eighths * size > kSteps * have;
  }
}

bool Bands::fits(std::uint32_t place, std::span<const std::uint32_t> room) const {
  for (std::size_t m = 0; m < limits_.size(); ++m) {
    if (measures_[m][place] > room[m]) return false;
  }
  return true;
}

bool Bands::others_fit(const Band& band, std::uint32_t place,
                       std::span<const std::uint32_t> room) const {
  for (std::size_t m = 0; m < limits_.size(); ++m) {
    if (m != band.measure && measures_[m][place] > room[m]) return false;
  }
  return true;
}

Bands::Offer Bands::longest_in(const Band& band, std::uint32_t room) const {
  const std::uint32_t rank = band.sight->longest(room);
  if (rank == Sight::kNone) return {};
  return {.place = band.places[band.sight->first_of(rank)],
          .own = band.sight->size(rank),
          .limit = limits_[band.measure]};
}

Bands::Offer Bands::found_in(const Band& band, std::span<const std::uint32_t> room) const {
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

Bands::Offer Bands::largest(std::span<const std::uint32_t> room, Side side) const {
  Offer largest;
  for (const Band& band : bands_) {
    if (side != Side::kAll && band.has_more != (side == Side::kMore)) continue;
    const Offer found = found_in(band, room);
    if (found.place == kNone) continue;
    if (largest.place == kNone || found.is_before(largest)) largest = found;
  }
  return largest;
}

}  // namespace sweephand
