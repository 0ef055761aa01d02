// A minibatch in memory.
#pragma once

#include "base/element.hpp"
#include "compose/plan.hpp"
#include "run/block_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {

// Memory for assembling minibatches, reused when the last array over it is dropped.
// Bytes that live as long as anyone holds them, or a part of them. False if there are none.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::byte* data, std::size_t size, std::shared_ptr<const void> owner)
      : data_(data), size_(size), owner_(std::move(owner)) {}

  explicit operator bool() const noexcept { return data_ != nullptr; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data_);
  }

  // REQUIRES: begin + size <= size()
  Buffer part(std::size_t begin, std::size_t size) const {
    return data_ == nullptr ? Buffer() : Buffer(data_ + begin, size, owner_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

class BufferPool {
 public:
  // `bytes` bytes, aligned to 64, content undefined. They go back to the pool in the end, if
  // that still lives.
  Buffer take(std::size_t bytes) {
    const BlockPool::Block block = blocks_->take(bytes);
    const auto give_back = [block, weak = std::weak_ptr(blocks_)](const std::byte*) {
      if (const auto pool = weak.lock()) {
        pool->give_back(block);
      } else {
        BlockPool::release(block);
      }
    };
    return {block.data, bytes, std::shared_ptr<const std::byte>(block.data, give_back)};
  }

  // See BlockPool.
  void shrink() noexcept { blocks_->shrink(); }

 private:
  std::shared_ptr<BlockPool> blocks_ = std::make_shared<BlockPool>();
};

// A stream as it is delivered.
struct StreamSpec {
  std::string name;
  std::uint32_t member = 0;
  std::uint32_t column = 0;
  ElementType type = ElementType::kOpaque;
  std::uint32_t element_bytes = 0;
  bool variable = false;   // samples of several elements each: sparse ones, byte strings
  bool sparse = false;     // elements have indices
  std::uint64_t head = 0;  // the most elements of a sample that are delivered, of byte strings;
                           // 0: all
  std::uint64_t sample_elements = 1;  // of samples that are not variable
  bool broadcast = false;  // its one sample is repeated for every sample of the sequence
  bool single = false;     // one sample per sequence: values one behind the other in any form
  bool carried = false;   // a length of its own, beside rows and grids: one behind the other in
                          // any form, with the first piece of a sequence
  bool counts = false;    // a sequence is as long as the longest of the streams that count
  std::string pad_value;  // element_bytes bytes

  // Samples come one after the other, in every form.
  bool is_ragged_in_all_forms() const noexcept { return single || carried; }

  // Of an element, if samples are variable.
  std::uint64_t sample_bytes() const noexcept {
    return variable ? element_bytes : sample_elements * element_bytes;
  }
};

enum class Form : std::uint8_t {
  kRagged,  // values one behind the other
  kPadded,  // a row per sequence, as wide as the longest one
  kRows,    // pieces in rows, as the plan says
};

struct AssembleOptions {
  Form form = Form::kRagged;
  bool pad_left = false;          // padding stands before the sequence
  std::uint32_t multiple_of = 1;  // widths are rounded up to a multiple of it
  bool segments = false;          // rows come with segment and position ids

  std::uint64_t rounded_up(std::uint64_t width) const noexcept {
    return (width + multiple_of - 1) / multiple_of * multiple_of;
  }
};

// Marks of the cells of rows, the same for all streams.
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
