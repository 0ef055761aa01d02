// A minibatch in memory.
#pragma once

#include "compose/plan.hpp"
#include "engine/buffer.hpp"
#include "engine/row_marks.hpp"
#include "engine/stream_spec.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// One stream of a minibatch. Buffers that a layout or a kind of stream does not need are empty.
//
//   ragged:  values (num_samples, sample_elements)
//            also of a stream with one sample per sequence, in any form
//   grid:    values (rows, width, sample_elements), mask (rows, width): 2 start, 1 valid, 0 gap
//   variable samples, sparse ones too: values (num_elements), element_offsets (num_samples +
//   1), indices (num_elements)
struct StreamBatch {
  Buffer values;
  Buffer mask;             // uint8; of rows, that of the batch's marks
  Buffer beyond;           // (sequences, sample_elements): the sample behind each piece that
                           // goes on; empty if none does
  Buffer sample_offsets;   // int64, one more than there are sequences; empty: one sample each
  Buffer element_offsets;  // int64
  Buffer indices;          // int32
  std::uint64_t sample_bytes = 0;  // of one entry of `values`: a sample, or an element of a
                                   // variable one
  std::uint64_t num_samples = 0;
  std::uint64_t num_elements = 0;
  std::uint64_t longest = 0;  // samples of the longest sequence
  std::uint64_t rows = 0;
  std::uint64_t width = 0;
  std::uint64_t stride = 0;  // cells from one row of a grid to the next

  bool is_grid() const noexcept { return static_cast<bool>(mask); }
};

// A plan, carried out. Immutable once it is handed out.
struct Batch : Plan {               // without its blocks
  AssembleOptions options;          // that it was laid out by
  std::uint64_t share_samples = 0;  // of the share, in the size-defining stream
  std::uint64_t num_cells = 0;      // of its widest grid; its samples if it has none
  std::vector<StreamBatch> streams;
  RowMarks marks;  // of a layout of rows

  // To be called when plan and streams are complete.
  void count();
};

// The rows [begin, end) as a separate minibatch with the figures of the same global one; a row
// is a sequence where a layout has no rows. Memory is shared: only offsets are new. Linear in
// the sequences of the part, and the samples of its sparse streams. Throws std::out_of_range.
Batch rows_of(const Batch& whole, std::uint64_t begin, std::uint64_t end);

// The same minibatch without the memory of other streams, whose numbers stay.
Batch with_streams(const Batch& whole, std::span<const std::size_t> numbers);

}  // namespace sweephand
