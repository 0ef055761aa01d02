// Marks of the cells of rows, the same for all streams.
#pragma once

#include "compose/plan.hpp"
#include "engine/buffer.hpp"

namespace sweephand {

// Each (num_rows, row_length) of the plan.
//
//   piece         | 3 samples | 4 samples     | padding |
//   mask          | 2 1 1     | 2 1 1 1       | 0 0     |   uint8; no 2 in a continued piece
//   segment_ids   | 1 1 1     | 2 2 2 2       | 0 0     |   int32; from 1 in every row
//   position_ids  | 0 1 2     | 0 1 2 3       | 0 0     |   int32
struct RowMarks {
  Buffer mask;
  Buffer segment_ids;   // empty unless they are wanted
  Buffer position_ids;  // empty unless they are wanted
};

RowMarks mark_rows(const Plan& plan, bool segments, BufferPool& pool);

}  // namespace sweephand
