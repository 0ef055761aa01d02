// Rows of all lanes, or all corpora of a mixture, together: each part of a sweep is a pack
// (docs/layouts.md, section 3).
#pragma once

#include "compose/part.hpp"
#include "compose/row_cursor.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

class PartRows final : public RowCursor {
 public:
  PartRows(const std::shared_ptr<const Timeline>& timeline, const Packing& packing,
           std::uint64_t time);

  std::uint64_t time() const noexcept override { return pack_->starts[row_]; }
  bool sweep_done() const noexcept override { return ends_sweep_ && pack_done(); }
  void enter_next_sweep() override { open(reader_.next()); }
  std::span<const Piece> front() const noexcept override { return pack_->row(row_); }
  void pop() override;
  void opened_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override {
    pack_->blocks.opened_at(row_, blocks);
  }
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override {
    if (!pack_done()) pack_->blocks.open_at(row_, blocks);
  }

  // As RowCursor's.
  static std::uint64_t boundary(const std::shared_ptr<const Timeline>& timeline,
                                const Packing& packing, std::uint64_t time);
  static std::uint64_t find(const std::shared_ptr<const Timeline>& timeline,
                            const Packing& packing, std::uint64_t sequence,
                            std::uint64_t sweep);

 private:
  bool pack_done() const noexcept { return row_ == pack_->num_rows(); }
  void open(Part part);

  std::shared_ptr<const Timeline> timeline_;
  Packing packing_;
  PartReader reader_;
  std::unique_ptr<Pack> pack_;  // rows start at nominal times
  std::uint64_t row_ = 0;
  bool ends_sweep_ = false;
};

}  // namespace sweephand
