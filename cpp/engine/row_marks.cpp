#include "engine/row_marks.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace sweephand {
namespace {

// Calls piece(j, cell, size) and padding(cell, count) from the first cell to the last.
template <class OnPiece, class OnPadding>
void walk(const Plan& plan, const OnPiece& piece, const OnPadding& padding) {
  std::uint64_t done = 0;
  for (std::size_t j = 0; j < plan.cells.size(); ++j) {
    const std::uint64_t cell =
        std::uint64_t{plan.cells[j].row} * plan.row_length + plan.cells[j].column;
    if (done != cell) padding(done, cell - done);
    piece(j, cell, plan.share[j].size);
    done = cell + plan.share[j].size;
  }
  padding(done, std::uint64_t{plan.num_rows} * plan.row_length - done);
}

void write_mask(const Plan& plan, std::uint8_t* mask) {
  walk(
      plan,
      [&](std::size_t j, std::uint64_t cell, std::uint64_t size) {
        std::memset(mask + cell, 1, size);
        if (plan.cells[j].first == 0) mask[cell] = 2;
      },
      [&](std::uint64_t cell, std::uint64_t count) { std::memset(mask + cell, 0, count); });
}

void write_segments(const Plan& plan, std::int32_t* segments, std::int32_t* positions) {
  std::int32_t segment = 0;
  walk(
      plan,
      [&](std::size_t j, std::uint64_t cell, std::uint64_t size) {
        segment = plan.cells[j].column == 0 ? 1 : segment + 1;
        std::fill_n(segments + cell, size, segment);
        std::iota(positions + cell, positions + cell + size, 0);
      },
      [&](std::uint64_t cell, std::uint64_t count) {
        std::fill_n(segments + cell, count, 0);
        std::fill_n(positions + cell, count, 0);
      });
}

}  // namespace

RowMarks mark_rows(const Plan& plan, bool segments, BufferPool& pool) {
  const std::uint64_t cells = std::uint64_t{plan.num_rows} * plan.row_length;
  RowMarks marks{.mask = pool.take(cells)};
  write_mask(plan, marks.mask.as<std::uint8_t>());
  if (!segments) return marks;
  marks.segment_ids = pool.take(cells * sizeof(std::int32_t));
  marks.position_ids = pool.take(cells * sizeof(std::int32_t));
  write_segments(plan, marks.segment_ids.as<std::int32_t>(),
                 marks.position_ids.as<std::int32_t>());
  return marks;
}

}  // namespace sweephand
