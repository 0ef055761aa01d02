// Rows of sweeps whose order is kept: docs/layouts.md, section 3.
#pragma once

#include "compose/row_cursor.hpp"
#include "order/timeline.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

class OrderedRows final : public RowCursor {
 public:
  OrderedRows(std::shared_ptr<const SweepTimeline> timeline, const Packing& packing,
              std::uint64_t time);

  // As RowCursor::find, from the begin of the sweep.
  static std::uint64_t find(const SweepTimeline& timeline, const Packing& packing,
                            std::uint64_t sequence, std::uint64_t sweep);

  std::uint64_t time() const noexcept override { return time_; }
  bool sweep_done() const noexcept override { return pack_ == nullptr; }
  void enter_next_sweep() override;
  std::span<const Piece> front() const noexcept override { return pack_->row(row_); }
  void pop() override;
  void opened_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override;
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override;

 private:
  void open_sweep(std::uint64_t sample);
  void open_pack(std::uint64_t start);

  std::shared_ptr<const SweepTimeline> timeline_;
  Packing packing_;
  Sweep sweep_;
  std::uint64_t time_ = 0;
  std::unique_ptr<Pack> pack_;  // null at the end of the sweep
  std::uint64_t row_ = 0;
};

}  // namespace sweephand
