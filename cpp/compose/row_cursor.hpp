// Walks along the timeline, row by row.
#pragma once

#include "compose/pieces.hpp"
#include "order/timeline.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

class RowCursor {
 public:
  // Stands at the first row of the sweep that begins at or after `time`, or at the sweep's end.
  // REQUIRES: check(packing)
  static std::unique_ptr<RowCursor> open(const std::shared_ptr<const Timeline>& timeline,
                                         const Packing& packing, std::uint64_t time);

  // Nominal time at which `sequence` begins in its row of a sweep. REQUIRES: the corpus has it
  static std::uint64_t find(const std::shared_ptr<const Timeline>& timeline,
                            const Packing& packing, std::uint64_t sequence,
                            std::uint64_t sweep);

  // The first place at or after `time` before which no row depends on anything after it.
  static std::uint64_t boundary(const std::shared_ptr<const Timeline>& timeline,
                                const Packing& packing, std::uint64_t time);

  RowCursor() = default;
  RowCursor(const RowCursor&) = delete;
  RowCursor& operator=(const RowCursor&) = delete;
  virtual ~RowCursor() = default;

  // Nominal time of the front row.
  virtual std::uint64_t time() const noexcept = 0;

  // The sweep has no more rows; time() is its end.
  virtual bool sweep_done() const noexcept = 0;

  // Goes to the first row of the next sweep. REQUIRES: sweep_done()
  virtual void enter_next_sweep() = 0;

  // The next row of the sweep. Valid until the next call. REQUIRES: !sweep_done()
  virtual std::span<const Piece> front() const noexcept = 0;

  // Goes on by one row. REQUIRES: !sweep_done()
  virtual void pop() = 0;

  // Adds the blocks that the front row is the first to need. Keeping them keeps their chunks
  // open.
  virtual void opened_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const = 0;

  // Adds the blocks that are open; a block may come several times.
  virtual void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const = 0;
};

}  // namespace sweephand
