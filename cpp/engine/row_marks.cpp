#include "engine/row_marks.hpp"

#include "base/cpu.hpp"

#include <cstdint>
#include <cstring>

namespace sweephand {
namespace {

// Writes all marks from the first cell to the last, including segments on request.
[[gnu::always_inline]] inline void write(const Plan& plan, const RowMarks& marks) {
  auto* const mask = marks.mask.as<std::uint8_t>();
  auto* const segments = marks.segment_ids.as<std::int32_t>();
  auto* const positions = marks.position_ids.as<std::int32_t>();
  std::uint64_t done = 0;
  const auto pad_to = [&](std::uint64_t cell) {
    std::memset(mask + done, 0, cell - done);
    if (segments != nullptr) {
      std::memset(segments + done, 0, (cell - done) * sizeof *segments);
      std::memset(positions + done, 0, (cell - done) * sizeof *positions);
    }
    done = cell;
  };
  std::int32_t segment = 0;
  for (std::size_t j = 0; j < plan.cells.size(); ++j) {
    const Cell& cell = plan.cells[j];
    const std::uint64_t begin = std::uint64_t{cell.row} * plan.row_length + cell.column;
    if (done != begin) pad_to(begin);
    const std::uint32_t size = plan.share[j].size;
    std::memset(mask + begin, 1, size);
    if (cell.first == 0) mask[begin] = 2;
    segment = cell.column == 0 ? 1 : segment + 1;
    if (segments != nullptr) {
      for (std::uint32_t i = 0; i < size; ++i) segments[begin + i] = segment;
      for (std::uint32_t i = 0; i < size; ++i)
        positions[begin + i] = static_cast<std::int32_t>(i);
    }
    done = begin + size;
  }
  pad_to(std::uint64_t{plan.num_rows} * plan.row_length);
}

// The same with wider instructions.
[[gnu::target("avx2")]] void write_avx2(const Plan& plan, const RowMarks& marks) {
  write(plan, marks);
}

[[gnu::target("avx512f,avx512bw")]] void write_avx512(const Plan& plan, const RowMarks& marks) {
  write(plan, marks);
}

void write_marks(const Plan& plan, const RowMarks& marks) {
  if (cpu().avx512) return write_avx512(plan, marks);
  if (cpu().avx2) return write_avx2(plan, marks);
  write(plan, marks);
}

}  // namespace

RowMarks mark_rows(const Plan& plan, bool segments, BufferPool& pool) {
  const std::uint64_t cells = std::uint64_t{plan.num_rows} * plan.row_length;
  RowMarks marks{.mask = pool.take(cells)};
  if (segments) {
    marks.segment_ids = pool.take(cells * sizeof(std::int32_t));
    marks.position_ids = pool.take(cells * sizeof(std::int32_t));
  }
  write_marks(plan, marks);
  return marks;
}

}  // namespace sweephand
