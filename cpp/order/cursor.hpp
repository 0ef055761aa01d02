// Walks along a timeline, sequence by sequence.
#pragma once

#include "order/block.hpp"
#include "order/lane_run.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

class Cursor {
 public:
  Cursor() = default;
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
  virtual ~Cursor() = default;

  // A cursor at another place of the same timeline, which may share this one's knowledge.
  virtual std::unique_ptr<Cursor> at(std::uint64_t time) const = 0;

  // Nominal time of the front sequence.
  std::uint64_t time() const noexcept { return time_; }
  virtual std::uint64_t sweep() const noexcept = 0;
  virtual std::uint64_t sweep_begin() const noexcept = 0;

  // The sweep has no more sequences; time() is its end.
  virtual bool sweep_done() const noexcept = 0;

  // Goes to the first sequence of the next sweep. REQUIRES: sweep_done()
  virtual void enter_next_sweep() = 0;

  // The sequences that come next, some of those of the sweep: at least one. Valid until the
  // next call. REQUIRES: !sweep_done()
  virtual std::span<const PlannedSequence> ahead() const noexcept = 0;

  // Goes on by some of those ahead, which have `samples` samples: constant for each on average,
  // whatever the number of lanes.
  virtual void pop(std::size_t count, std::uint64_t samples) = 0;

  // Goes on by the most of what comes next, at most `samples` samples of the sweep, without
  // bringing it into order, and returns it by lane: a place in each lane is found by search.
  // None where that is not worth it, and time() is what it was.
  virtual std::vector<LaneRun> pass(std::uint64_t /*samples*/) { return {}; }

  // Adds the current blocks of the lanes; a block may come several times. Keeping them keeps
  // their chunks open. Linear in the lanes.
  virtual void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const = 0;

  // Adds the blocks of the first of those ahead, but for lanes that have added theirs for this
  // `taker`, a number other than 0 that no other one before had.
  virtual void add_blocks(std::span<const PlannedSequence> first, std::uint32_t taker,
                          std::vector<std::shared_ptr<const Block>>& blocks) = 0;

  // The same of those that were passed last.
  virtual void add_blocks(std::span<const LaneRun> /*passed*/, std::uint32_t /*taker*/,
                          std::vector<std::shared_ptr<const Block>>& /*blocks*/) {}

  // The place of the block of ahead()[i] among those of the last taker. REQUIRES: it was added
  virtual std::uint32_t place_of_block(std::size_t i) const noexcept = 0;

 protected:
  std::uint64_t time_ = 0;
};

}  // namespace sweephand
