// Minibatches of packed rows: docs/layouts.md, section 3.
#pragma once

#include "compose/pack.hpp"
#include "compose/pieces.hpp"
#include "compose/planner.hpp"
#include "order/timeline.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace sweephand {

class RowCursor;

// A minibatch of m samples is the next max(1, m div row_length) rows, fewer at the end of data;
// row j goes to worker j mod K, or with a balance they are dealt by cost. Every worker has the
// same number of rows, and of micro-batches: where they do not come out even, the last rows of
// some are empty.
class PackedPlanner final : public Planner {
 public:
  // Rows that start at or after `limit` are left out. Throws std::invalid_argument for a row
  // length outside [1, 2^31] or a look-ahead of 0.
  PackedPlanner(std::shared_ptr<const Timeline> timeline, const Packing& packing,
                std::uint64_t limit = kNoLimit);
  ~PackedPlanner() override;

  void seek(std::uint64_t time) override;
  std::uint64_t time() const override;
  Plan next(const Request& request) override;
  std::uint64_t find(std::uint64_t sequence, std::uint64_t sweep,
                     std::uint64_t num_samples) const override;
  std::vector<std::uint64_t> sequences_in(std::uint64_t start, std::uint64_t stop,
                                          std::uint64_t num_samples) const override;
  std::uint64_t boundary(std::uint64_t time) const override;

 private:
  std::uint64_t num_rows(const Request& request) const;
  std::uint64_t share_rows(std::uint64_t global_rows, const Request& request) const;
  std::uint32_t whole_size(const Piece& piece) const;
  void add_row(std::span<const Piece> pieces, std::uint16_t sweep, Plan& plan) const;

  std::shared_ptr<const Timeline> timeline_;
  Packing packing_;
  std::uint64_t limit_;
  std::unique_ptr<RowCursor> cursor_;  // absent before the first use
};

}  // namespace sweephand
