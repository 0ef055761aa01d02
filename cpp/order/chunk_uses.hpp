// The times at which chunks are read: the future of a cache, as far as the timeline determines
// it.
#pragma once

#include "order/timeline.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

// The reader of the lanes l with l % count == index.
struct LaneReader {
  std::uint32_t count = 1;
  std::uint32_t index = 0;
};

// All lanes are read at one rate, so that a block is read from about the place of the lane on
// where it begins there: a block that is cut by a border of lanes is read by both.
//
//   nominal time   0 ........................ a sweep
//   lane 0         | block 4 | block 0 | block 7..
//   lane 1         ..7 | block 2 | block 9 | ...       block 7 is read twice
//
// Not for several threads at once.
class ChunkUses {
 public:
  static constexpr std::uint64_t kNever = UINT64_MAX;
  static constexpr std::uint64_t kSweepsAhead = 4;

  // `limit` is where the timeline ends. `by_lanes`: a reader reads its lanes, instead of all.
  ChunkUses(const std::shared_ptr<const Timeline>& timeline, std::uint64_t limit,
            bool by_lanes);

  // Nominal time at which one of `readers` reads `chunk`: `time`, if it is being read then, or
  // else the next such time; `skips_one`: the time after that. kNever if the timeline ends
  // before; a use beyond the next few sweeps counts as their end. Linear in the number of
  // chunks for a sweep that was not queried lately, else a few searches. For a mixture it is
  // about that time, by keys. REQUIRES: the timeline has the chunk, count > 0
  std::uint64_t next(std::uint64_t chunk, std::uint64_t time,
                     std::span<const LaneReader> readers, bool skips_one);

  // The same of each of them.
  std::vector<std::uint64_t> next(std::span<const std::uint64_t> chunks, std::uint64_t time,
                                  std::span<const LaneReader> readers, bool skips_one);

 private:
  struct Known {
    Sweep sweep;
    std::vector<std::uint32_t> block_of;  // each chunk; empty where one block holds all
  };
  struct Use {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  // Those of one corpus, in its own time.
  struct Part {
    Known& sweep(std::uint64_t number);
    std::vector<Use> uses(Known& found_in, std::uint64_t chunk,
                          std::span<const LaneReader> readers) const;
    std::uint64_t next(std::uint64_t chunk, std::uint64_t time,
                       std::span<const LaneReader> readers, bool skips_one);

    TimelinePart corpus;
    bool by_lanes;
    std::deque<Known> known;  // those that were asked of lately
  };

  std::vector<Part> parts_;
};

}  // namespace sweephand
