// Rows of each lane apart, merged in key order: docs/layouts.md, section 3.
#pragma once

#include "compose/packed_sweep.hpp"
#include "compose/row_cursor.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

class LaneRows final : public RowCursor {
 public:
  LaneRows(std::shared_ptr<const SweepTimeline> timeline, const Packing& packing,
           std::uint64_t time);

  std::uint64_t time() const noexcept override { return time_; }
  bool sweep_done() const noexcept override { return keys_.empty(); }
  void enter_next_sweep() override;
  std::span<const Piece> front() const noexcept override;
  void pop() override;
  void opened_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override;
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override;

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

  std::shared_ptr<const SweepTimeline> timeline_;
  Packing packing_;
  PackedSweep sweep_;
  std::uint64_t time_ = 0;
  std::vector<Lane> lanes_;
  std::vector<std::uint64_t> keys_;  // a heap, the least in front, of lanes that have a row
};

}  // namespace sweephand
