#include "compose/bands.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <limits>

namespace sweephand {
namespace {

constexpr std::uint8_t kNoBand = 255;

}  // namespace

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
