#include "order/rate.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

__extension__ using int128 = __int128;

constexpr unsigned kUnitBits = 33;  // half of a unit of a share: the area of a ramp is whole

// `units` over twice a share, rounded up, by two divisions of 64 bits: one of 128 takes ten
// times as long. REQUIRES: share <= 2^32, and the quotient and units / 2^33 fit in 64 bits
std::uint64_t over(uint128 units, std::uint64_t share) noexcept {
  const uint128 half = (units + 1) / 2;
  const auto high = static_cast<std::uint64_t>(half >> 32);
  const std::uint64_t rest = high % share << 32 | static_cast<std::uint32_t>(half);
  return (high / share << 32) + rest / share + (rest % share != 0 ? 1 : 0);
}

}  // namespace

Rate::Rate(std::vector<RateSegment> segments) : segments_(std::move(segments)) {
  if (segments_.empty() || segments_[0].begin != 0)
    throw std::invalid_argument("the first segment of a rate must begin at 0");
  if (segments_.back().first != segments_.back().last)
    throw std::invalid_argument("the last segment of a rate must be even");
  for (std::size_t k = 0; k < segments_.size(); ++k) {
    const RateSegment& segment = segments_[k];
    if (std::max(segment.first, segment.last) > kWhole)
      throw std::invalid_argument("a share must be at most 2^32");
    const bool has_share = segment.first != 0 || segment.last != 0;
    if (has_share && birth_ == kNever) birth_ = segment.begin;
    if (k == 0) {
      before_.push_back(0);
      continue;
    }
    const RateSegment& previous = segments_[k - 1];
    if (segment.begin <= previous.begin)
      throw std::invalid_argument("segments of a rate must ascend, got " +
                                  std::to_string(segment.begin) + " behind " +
                                  std::to_string(previous.begin));
    const std::uint64_t length = segment.begin - previous.begin;
    if (previous.first != previous.last && (previous.span > kLongest || length > previous.span))
      throw std::invalid_argument("a share changes in " + std::to_string(length) + " to 2^46 " +
                                  "samples, got " + std::to_string(previous.span));
    before_.push_back(before_.back() + due_in(k - 1, length));
  }
}

// The samples due since the beginning of a segment are (2 n D x + (m - n) x^2) / D for a share
// that goes from n to m in D samples, rounded down: this value, times x, over D.
uint128 Rate::height_at(std::size_t segment, std::uint64_t elapsed) const noexcept {
  const auto& [begin, first, last, span] = segments_[segment];
  const int128 slope = static_cast<int128>(last) - static_cast<int128>(first);
  return static_cast<uint128>(int128{2} * first * span + slope * elapsed);
}

uint128 Rate::due_in(std::size_t segment, std::uint64_t elapsed) const noexcept {
  const auto& [begin, first, last, span] = segments_[segment];
  if (first == last) return uint128{2} * first * elapsed;
  return height_at(segment, elapsed) * elapsed / span;
}

std::uint64_t Rate::due(std::uint64_t time) const noexcept {
  const auto next = std::ranges::upper_bound(segments_, time, {}, &RateSegment::begin);
  const auto segment = static_cast<std::size_t>(std::distance(segments_.begin(), next)) - 1;
  const uint128 units = before_[segment] + due_in(segment, time - segments_[segment].begin);
  return static_cast<std::uint64_t>(units >> kUnitBits);
}

// due_in(segment, elapsed) >= due, without a division.
bool Rate::is_due(std::size_t segment, std::uint64_t elapsed, uint128 due) const noexcept {
  const auto& [begin, first, last, span] = segments_[segment];
  return first == last ? uint128{2} * first * elapsed >= due
                       : height_at(segment, elapsed) * elapsed >= due * span;
}

// The least elapsed time at which this much is due. REQUIRES: the segment has as much
std::uint64_t Rate::elapsed_at(std::size_t segment, uint128 due) const noexcept {
  if (due == 0) return 0;
  const auto& [begin, first, last, span] = segments_[segment];
  const bool is_last = segment + 1 == segments_.size();
  const std::uint64_t whole = is_last ? kMaxTime : segments_[segment + 1].begin - begin;
  if (is_last && !is_due(segment, whole, due)) return kNever;
  if (first == last) return over(due, first);
  // An estimate from the root of the equation, and then a search that doubles its steps.
  const auto wanted = static_cast<double>(due);
  const double start = 2.0 * static_cast<double>(first);
  const double slope =
      (static_cast<double>(last) - static_cast<double>(first)) / static_cast<double>(span);
  const double root = std::sqrt(std::max(0.0, start * start + 4.0 * slope * wanted));
  const double near = 2.0 * wanted / (start + root);
  std::uint64_t high =
      near < static_cast<double>(whole) ? static_cast<std::uint64_t>(near) : whole;
  for (std::uint64_t step = 1; !is_due(segment, high, due); step *= 2)
    high = std::min(whole, high + step);
  std::uint64_t low = high;
  for (std::uint64_t step = 1; low > 0 && is_due(segment, low - 1, due); step *= 2) {
    high = low - 1;
    low -= std::min(low, step);
  }
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (is_due(segment, middle, due)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

std::uint64_t Rate::reached(std::uint64_t samples) const noexcept {
  if (birth_ == kNever) return kNever;
  const uint128 units = uint128{samples} << kUnitBits;
  // The first segment at whose end they are due.
  const auto end = std::lower_bound(before_.begin() + 1, before_.end(), units);
  const auto segment = static_cast<std::size_t>(std::distance(before_.begin(), end)) - 1;
  const bool is_last = segment + 1 == segments_.size();
  const uint128 rest = units - std::min(units, before_[segment]);
  if (is_last && rest > 0 && segments_[segment].first == 0) return kNever;
  const std::uint64_t elapsed = elapsed_at(segment, rest);
  if (elapsed == kNever) return kNever;
  return std::max(birth_, segments_[segment].begin + elapsed);
}

std::uint64_t Rate::total() const noexcept {
  if (segments_.back().first != 0) return kNever;
  return static_cast<std::uint64_t>((before_.back() + (uint128{1} << kUnitBits) - 1) >>
                                    kUnitBits);
}

}  // namespace sweephand
