// Walks along the timeline, row by row: the lanes of a sweep merged in key order.
#pragma once

#include "compose/packed_sweep.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

class RowCursor {
 public:
  // Stands at the first row of the sweep that begins at or after `time`, or at the sweep's end.
  RowCursor(std::shared_ptr<const Timeline> timeline, const Packing& packing,
            std::uint64_t time);

  // Nominal time of the front row.
  std::uint64_t time() const noexcept { return time_; }

  // The sweep has no more rows; time() is its end.
  bool sweep_done() const noexcept { return keys_.empty(); }

  // Goes to the first row of the next sweep. REQUIRES: sweep_done()
  void enter_next_sweep();

  // The next row of the sweep. Valid until the next call. REQUIRES: !sweep_done()
  std::span<const Piece> front() const noexcept;

  // Goes on by one row. REQUIRES: !sweep_done()
  void pop();

  // Adds the blocks that the front row is the first to need. Who keeps them keeps their chunks
  // open.
  void opened_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const;

  // Adds the blocks that are open in the lanes; a block may come several times.
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const;

 private:
  struct Lane {
    std::unique_ptr<Pack> pack;  // null at the end of the lane
    std::uint64_t row = 0;
  };

  // A key is (offset in the lane, lane), the lane in the low bits.
  static constexpr unsigned kLaneBits = 16;
  std::uint32_t front_lane() const noexcept {
    return static_cast<std::uint32_t>(keys_.front() & ((1U << kLaneBits) - 1));
  }

  void open_sweep(std::uint64_t offset);
  void push_key(std::uint32_t number, std::uint64_t start);

  std::shared_ptr<const Timeline> timeline_;
  Packing packing_;
  PackedSweep sweep_;
  std::uint64_t time_ = 0;
  std::vector<Lane> lanes_;
  std::vector<std::uint64_t> keys_;  // a heap, the least in front, of lanes that have a row
};

}  // namespace sweephand
