// Sequences that are left out from a time on: docs/order.md, "Events".
#pragma once

#include "order/block.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// 11 bytes for each: most of those that are not banned are known by one bit, in little memory.
class Bans {
 public:
  static constexpr std::uint64_t kMostSequences = std::uint64_t{1} << 47;
  static constexpr std::size_t kMostTimes = (std::size_t{1} << 17) - 1;

  // Holds nothing, and room for so many.
  explicit Bans(std::size_t num_sequences);

  // Bans sequences from nominal time `at` on: one that is banned already stays so. Throws
  // std::invalid_argument where times do not ascend, there are too many of them, or there is no
  // room.
  void add(std::uint64_t at, std::span<const std::uint64_t> sequences);

  // True if any ban holds at a nominal time.
  bool hold_at(std::uint64_t time) const noexcept {
    return !times_.empty() && times_.front() <= time;
  }

  // True if a sequence that begins at a nominal time is banned.
  bool hold(std::uint64_t sequence, std::uint64_t time) const noexcept;

  // True if any begins to hold after a nominal time.
  bool begin_after(std::uint64_t time) const noexcept {
    return !times_.empty() && times_.back() > time;
  }

  // The places, ascending, of those that are banned when they begin: sequence j at times[j], or
  // all of them at `begin` if there are no times.
  std::vector<std::size_t> among(std::span<const PlannedSequence> sequences,
                                 std::uint64_t begin,
                                 std::span<const std::uint64_t> times = {}) const;

 private:
  static constexpr unsigned kTimeBits = 17;
  static constexpr unsigned kWordBits = 64;
  std::size_t bit_of(std::uint64_t mixed) const noexcept;
  std::size_t slot_of(std::uint64_t sequence, std::uint64_t mixed) const noexcept;

  std::vector<std::uint64_t> may_hold_;  // bits, 16 for each ban
  std::vector<std::uint64_t> slots_;     // sequence, and 1 + which of the times; 0: nothing
  std::vector<std::uint64_t> times_;
  std::size_t room_;
};

}  // namespace sweephand
