// The rate at which a mixture goes through one of its corpora: docs/order.md, "Mixtures".
#pragma once

#include "base/mix.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sweephand {

// A share of nominal time that changes evenly, in units of 2^-32, up to the next segment, which
// may begin before `last` is reached.
struct RateSegment {
  std::uint64_t begin = 0;
  std::uint64_t first = 0;  // at the beginning
  std::uint64_t last = 0;   // when `span` samples have passed
  std::uint64_t span = 0;
};

class Rate {
 public:
  static constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kNever = UINT64_MAX;
  static constexpr std::uint64_t kLongest = std::uint64_t{1} << 46;  // span
  static constexpr std::uint64_t kMaxTime = std::uint64_t{1} << 63;

  // That of a corpus alone: its own time is nominal time.
  Rate() : Rate(std::vector{RateSegment{.first = kWhole, .last = kWhole}}) {}

  // Throws std::invalid_argument unless segments begin at 0 and ascend, the last one is even,
  // spans are kLongest at most and hold their segments, and no share is above kWhole.
  explicit Rate(std::vector<RateSegment> segments);

  // Samples of the corpus that are due at nominal time `time`, rounded down. REQUIRES: time <=
  // kMaxTime
  std::uint64_t due(std::uint64_t time) const noexcept;

  // The first nominal time at which `samples` are due, and the corpus has had a share; kNever.
  // REQUIRES: samples <= kMaxTime
  std::uint64_t reached(std::uint64_t samples) const noexcept;

  // The share, if it never changes; else 0.
  std::uint64_t even_share() const noexcept {
    return segments_.size() == 1 ? segments_[0].first : 0;
  }

  // As reached, of such a share. REQUIRES: share > 0
  static std::uint64_t reached_evenly(std::uint64_t samples, std::uint64_t share) noexcept {
    if (samples > share << 31) return kNever;  // kMaxTime is not enough
    const std::uint64_t rest = samples % share << 32;
    return (samples / share << 32) + rest / share + (rest % share != 0 ? 1 : 0);
  }

  // Since when the corpus has a share; kNever.
  std::uint64_t birth() const noexcept { return birth_; }

  // All samples that are ever due, rounded up: kNever, if there is no end.
  std::uint64_t total() const noexcept;

 private:
  uint128 height_at(std::size_t segment, std::uint64_t elapsed) const noexcept;
  uint128 due_in(std::size_t segment, std::uint64_t elapsed) const noexcept;
  bool is_due(std::size_t segment, std::uint64_t elapsed, uint128 due) const noexcept;
  std::uint64_t elapsed_at(std::size_t segment, uint128 due) const noexcept;

  std::vector<RateSegment> segments_;
  std::vector<uint128> before_;  // due at the beginning of each, in units of 2^-33 samples
  std::uint64_t birth_ = kNever;
};

}  // namespace sweephand
