// A minibatch in memory.
#pragma once

#include "compose/plan.hpp"
#include "engine/buffer.hpp"
#include "engine/row_marks.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace sweephand {

// One stream of a minibatch. Buffers that a layout or a kind of stream does not need are null.
//
//   ragged:  values (num_samples, sample_elements)
//   grid:    values (rows, width, sample_elements), mask (rows, width): 2 start, 1 valid, 0 gap
//   variable samples, sparse ones too: values (num_elements), element_offsets (num_samples +
//   1), indices (num_elements)
struct StreamBatch {
  std::shared_ptr<Buffer> values;
  std::shared_ptr<Buffer> mask;    // uint8; of rows, that of the batch's marks
  std::shared_ptr<Buffer> beyond;  // (sequences, sample_elements): the sample behind each piece
                                   // that goes on; null if none does
  std::shared_ptr<Buffer>
      sample_offsets;  // int64, one more than there are sequences; null: one sample each
  std::shared_ptr<Buffer> element_offsets;  // int64
  std::shared_ptr<Buffer> indices;          // int32
  std::uint64_t num_samples = 0;
  std::uint64_t num_elements = 0;
  std::uint64_t longest = 0;  // samples of the longest sequence
  std::uint64_t rows = 0;
  std::uint64_t width = 0;
};

// Immutable once it is handed out.
struct Batch {
  Plan plan;                        // without its blocks
  std::uint64_t share_samples = 0;  // of the share, in the size-defining stream
  std::uint64_t num_cells = 0;      // that the share fills or pads; its samples if it is ragged
  std::vector<StreamBatch> streams;
  RowMarks marks;  // of a layout of rows
};

}  // namespace sweephand
