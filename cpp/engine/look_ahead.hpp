// Which chunks will be wanted soon: those of the blocks that lanes are about to enter.
//
//   lane 0 | ... block 17 ......|. block 4 ...      nominal time: now -> | horizon |
//   lane 1 | .. block 2 ...|... block 30 .....      all lanes are read at one rate, so that a
//   lane 2 | .... block 9 .........| block 21       time is a place in each of them
#pragma once

#include "compose/plan.hpp"
#include "order/sweep_timeline.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sweephand {

class LookAhead {
 public:
  // `limit` is where the timeline ends. `by_lanes`: a worker reads its share of the lanes,
  // instead of all. `with_open`: also returns chunks of open blocks, as the first
  // read from a store is waited for, and those that are due first in front.
  LookAhead(const std::shared_ptr<const Timeline>& timeline, std::uint64_t limit, bool by_lanes,
            bool with_open);

  // A quarter of the samples that a sweep has open at a time, in nominal time.
  std::uint64_t horizon() const noexcept { return parts_[0].horizon(); }

  // True if open blocks count.
  bool with_open() const noexcept { return parts_[0].with_open(); }

  // The chunks of blocks that will be open within the horizon and are not at `time`, as they
  // are due, about: the places of lanes are not searched for. Nothing if that was returned for
  // a time that is near enough. Not for several threads at once.
  std::optional<std::vector<std::uint64_t>> chunks_at(std::uint64_t time,
                                                      const Request& request);

 private:
  // That of one corpus.
  class Part {
   public:
    Part(TimelinePart part, bool by_lanes, bool with_open);
    std::uint64_t horizon() const noexcept { return horizon_; }
    bool with_open() const noexcept { return with_open_; }
    bool look(std::uint64_t nominal_time, const Request& request);
    const std::vector<std::uint64_t>& chunks() const noexcept { return chunks_; }

   private:
    bool reads(std::uint32_t lane, const Request& request) const;
    bool add_first(std::uint64_t time, std::uint64_t then, const Request& request);
    void add(const Sweep& sweep, std::uint64_t block);
    std::shared_ptr<Sweep> sweep(std::uint64_t number);

    TimelinePart part_;
    bool by_lanes_;
    bool with_open_;
    std::uint64_t horizon_ = 0;  // 0: all is open all the time
    std::uint64_t next_time_ = 0;
    std::uint64_t last_time_ = 0;
    std::shared_ptr<Sweep> now_;  // those that were looked at last
    std::shared_ptr<Sweep> next_;
    std::vector<std::uint64_t> chunks_;  // that were found last, numbered in the whole timeline
  };

  std::vector<Part> parts_;
};

}  // namespace sweephand
