// The result of a deserializer: the sequences of one chunk, one column per stream.
#pragma once

#include "base/element.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sweephand {

class Extents;
class MappedOffsets;

inline bool ascends_within(std::int64_t begin, std::int64_t end, std::uint64_t count) noexcept {
  return 0 <= begin && begin <= end && std::cmp_less_equal(end, count);
}

// Samples [begin, end) of a sequence.
struct SampleRange {
  std::int64_t begin = 0;
  std::int64_t end = -1;

  bool is_there() const noexcept { return begin <= end; }
  std::uint64_t count() const noexcept { return static_cast<std::uint64_t>(end - begin); }
};

// One stream of one chunk. All pointers are borrowed; the chunk's owner keeps them alive.
//
//   sequence s = samples [sample_offsets[s], sample_offsets[s + 1])
//                (null: one sample per sequence)
//   sample i   = elements [element_offsets[i], element_offsets[i + 1])
//                (null: a fixed number per sample)
//   element    = element_bytes at `values`, or, if it is null, in `extents`
//
// Fixed samples have sample_elements elements each. Sparse samples also have one index per
// element; `indices` is not null then, also where there are no elements.
struct Column {
  const std::byte* values = nullptr;
  const std::int64_t* sample_offsets = nullptr;
  const std::int64_t* element_offsets = nullptr;
  const std::int32_t* indices = nullptr;
  std::uint64_t element_bytes = 0;
  std::uint64_t sample_elements = 1;  // meaningful only without element_offsets
  ElementType type = ElementType::kOpaque;
  const Extents* extents = nullptr;  // the files that the values lie in: they are read when
                                     // they are delivered, and looked at for changes afterwards
  const MappedOffsets* mapped_offsets = nullptr;  // the file that sample_offsets lie in, which
                                                  // is looked at too: see read_offsets
  // The existing elements: nothing beyond is read, whatever the offsets are.
  std::uint64_t num_sequences = 0;
  std::uint64_t num_samples = 0;
  std::uint64_t num_elements = 0;  // of samples that are not fixed

  std::int64_t begin(std::uint64_t sequence) const noexcept {
    return sample_offsets ? sample_offsets[sequence] : static_cast<std::int64_t>(sequence);
  }
  std::int64_t end(std::uint64_t sequence) const noexcept {
    return sample_offsets ? sample_offsets[sequence + 1]
                          : static_cast<std::int64_t>(sequence) + 1;
  }

  // The samples of the sequence, if they and their elements are there. REQUIRES: sequence <
  // num_sequences
  SampleRange find(std::uint64_t sequence) const noexcept {
    SampleRange found{.begin = static_cast<std::int64_t>(sequence),
                      .end = static_cast<std::int64_t>(sequence) + 1};
    if (sample_offsets != nullptr) {
      // Read once, as another process may write to a mapped file between two reads.
      const volatile std::int64_t* const offset = sample_offsets + sequence;
      found = {.begin = offset[0], .end = offset[1]};
    }
    const bool is_there = ascends_within(found.begin, found.end, num_samples) &&
                          (element_offsets == nullptr ||
                           ascends_within(element_offsets[found.begin],
                                          element_offsets[found.end], num_elements));
    return is_there ? found : SampleRange{};
  }
};

// How many entries the arrays of a column have.
struct ColumnExtent {
  std::uint64_t value_bytes = 0;
  std::uint64_t sample_offsets = 0;
  std::uint64_t element_offsets = 0;
  std::uint64_t indices = 0;
};

// A column of `num_samples` samples. Throws std::invalid_argument when its arrays are too short
// for them.
Column bounded(Column column, std::uint64_t num_samples, const ColumnExtent& extent);

// Immutable once it is shared; read by several threads.
struct Chunk {
  std::vector<Column> columns;  // one per stream, in the order of the deserializer's streams
  std::uint64_t num_sequences = 0;
  std::vector<std::uint64_t> skipped;  // ascending: damaged, to be left out of minibatches
  std::uint64_t bytes = 0;             // memory held by the owner, for the limit and for stats
  std::shared_ptr<const void> owner;   // keeps what the columns point to
};

}  // namespace sweephand
