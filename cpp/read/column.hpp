// The result of a deserializer: the sequences of one chunk, one column per stream.
#pragma once

#include "base/element.hpp"
#include "run/block_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
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

// The pool of the process. It is never destroyed, because chunks may outlive everything else.
BlockPool& column_pool();

// New elements are not set to zero, and large vectors take their memory from a pool: in a
// window, the next chunk reuses the memory of one that left it.
template <class T>
struct ColumnAllocator : std::allocator<T> {
  template <class Other>
  struct rebind {  // NOLINT(readability-identifier-naming): the standard's name
    using other = ColumnAllocator<Other>;  // NOLINT(readability-identifier-naming): as above
  };

  T* allocate(std::size_t count) {
    if (count < kLarge) return std::allocator<T>::allocate(count);
    const BlockPool::Block block = column_pool().take(kHead + count * sizeof(T));
    ::new (static_cast<void*>(block.data)) std::size_t(block.capacity);
    return reinterpret_cast<T*>(block.data + kHead);
  }

  void deallocate(T* elements, std::size_t count) noexcept {
    if (count < kLarge) {
      std::allocator<T>::deallocate(elements, count);
      return;
    }
    std::byte* const data = reinterpret_cast<std::byte*>(elements) - kHead;
    column_pool().give_back({.data = data, .capacity = *reinterpret_cast<std::size_t*>(data)});
  }

  template <class Other>
  void construct(Other* place) noexcept(std::is_nothrow_default_constructible_v<Other>) {
    ::new (static_cast<void*>(place)) Other;
  }
  template <class Other, class... Arguments>
  void construct(Other* place, Arguments&&... arguments) {
    std::construct_at(place, std::forward<Arguments>(arguments)...);
  }

 private:
  static constexpr std::size_t kHead = 64;  // bytes before the elements: the block's capacity
  static constexpr std::size_t kLarge = (std::size_t{1} << 16) / sizeof(T);  // elements
};

template <class T>
using ColumnVector = std::vector<T, ColumnAllocator<T>>;

// Frees spare room of more than a quarter of the used room.
template <class Values>
void free_room(Values& values) {
  if (values.capacity() / 5 > values.size() / 4) values.shrink_to_fit();
}

// Bytes of any value, from the same memory. Not a vector, which visits its elements when it is
// made or dropped unless the compiler sees that there is nothing to do.
std::shared_ptr<std::uint8_t> take_bytes(std::size_t size);

// Memory that processes hand to each other by a descriptor.
// The first bytes of a memfd, mapped and shared by all processes that map it. The descriptor
// may be closed at once.
class Segment {
 public:
  // Throws system_error when the system refuses. REQUIRES: size > 0, and the memory is as large
  Segment(int descriptor, std::uint64_t size);
  Segment(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace sweephand
