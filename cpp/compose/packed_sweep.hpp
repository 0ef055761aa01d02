// The rows of one sweep, lane by lane: each lane is cut into packs (docs/layouts.md, section
// 3).
#pragma once

#include "compose/pieces.hpp"
#include "order/timeline.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace sweephand {

// The sequences of one lane that start in [begin, end) of the sweep's list.
struct PackRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Packs are planned on demand, and held until let_go. Not thread-safe.
class PackedSweep {
 public:
  // REQUIRES: check(packing)
  PackedSweep(const SweepTimeline& timeline, const Packing& packing, std::uint64_t number);

  std::uint64_t number() const noexcept { return sweep_.number(); }
  std::uint32_t num_lanes() const noexcept { return sweep_.num_lanes(); }
  std::uint64_t num_samples() const noexcept { return sweep_.num_samples(); }
  std::uint64_t cut(std::uint32_t lane) const noexcept { return sweep_.cut(lane); }

  // The rows of a lane cover the list from its first sequence to that of the next lane.
  std::uint64_t lane_begin(std::uint32_t lane) { return sweep_.first_start(lane); }
  std::uint64_t lane_end(std::uint32_t lane) { return sweep_.first_start(lane + 1); }

  // Where the first row of a lane that starts at or after `sample` starts; lane_end(lane) if
  // there is none. Plans at most one pack.
  std::uint64_t row_start(std::uint32_t lane, std::uint64_t sample);

  // Hands over the pack of a row of a lane, given the start of the row. REQUIRES: it is a row
  // of the lane
  std::unique_ptr<Pack> take_pack(std::uint32_t lane, std::uint64_t start);

  // As in Sweep, with rows in place of sequences.
  std::uint64_t samples_before(std::uint64_t offset, std::uint32_t lane);
  std::uint64_t offset_at(std::uint64_t samples);

  // Nominal time at which `sequence` begins in its row, from the begin of the sweep. REQUIRES:
  // the corpus has it
  std::uint64_t find(std::uint64_t sequence);

  void let_go() noexcept;

 private:
  PackRange range_at(std::uint32_t lane, std::uint64_t sample);
  PackRange range_holding(std::uint32_t lane, std::uint64_t sample);
  const Pack& pack(PackRange range);
  std::unique_ptr<Pack> plan(PackRange range);

  Packing packing_;
  bool keeps_order_;
  std::uint64_t seed_;
  Sweep sweep_;
  std::uint64_t pack_samples_;                            // that a pack should have
  std::map<std::uint64_t, std::unique_ptr<Pack>> packs_;  // by the begin of their range
};

}  // namespace sweephand
