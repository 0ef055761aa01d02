// Copies of samples, most of which are short.
#pragma once

#include "base/element.hpp"
#include "base/error.hpp"
#include "engine/batch.hpp"
#include "read/column.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace sweephand {

// Elements of one type copied as another, where no value may be lost.
// Copies `count` elements. Returns the number of the first refused element, if any; the
// contents of `to` are then undefined.
using Convert = std::optional<std::size_t>(const std::byte* from, std::byte* to,
                                           std::size_t count);

// The way from one type to another. Integers must fit, also those that become floats, which may
// have no more digits than the float; floats that become integers must be whole. A float may be
// rounded to the nearest narrower one, once, but a finite one must stay finite. Where there is
// no way, every element is refused.
Convert* converter(ElementType from, ElementType to);

constexpr std::uint64_t kCacheLine = 64;  // bytes

// Prefetches the beginning of a run of bytes; the processor continues from there by itself.
// Forced inline, like its callers: a call without effect is dropped.
[[gnu::always_inline]] inline void prefetch(const std::byte* data, std::uint64_t bytes) {
  constexpr std::uint64_t kMostLines = 8;
  if (bytes == 0) return;
  const std::uint64_t last = std::min(bytes, kMostLines * kCacheLine) - 1;
  __builtin_prefetch(data);
  for (std::uint64_t at = kCacheLine; at < last; at += kCacheLine)
    __builtin_prefetch(data + at);
  __builtin_prefetch(data + last);  // which may lie on one line more
}

inline void copy(const std::byte* from, std::byte* to, std::uint64_t bytes) {
  // A call costs more than such a copy.
  if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else if (bytes != 0) {  // else there may be no place
    std::memcpy(to, from, bytes);
  }
}

// Short runs are copied without a call, together with the bytes after them, if the next copy
// overwrites those: kShort bytes in all.
constexpr std::uint64_t kShort = 32;

// Of no more bytes than necessary, as later ones may be on a cache line that was not
// prefetched.
inline void copy_short(const std::byte* from, std::byte* to, std::uint64_t bytes) {
  if (bytes <= kShort / 2) {
    std::memcpy(to, from, kShort / 2);
  } else {
    std::memcpy(to, from, kShort);
  }
}

// Below which offset of the column's values kShort bytes may be read.
inline std::uint64_t short_before(const Column& column) noexcept {
  const std::uint64_t elements = column.element_offsets == nullptr
                                     ? column.num_samples * column.sample_elements
                                     : column.num_elements;
  const std::uint64_t bytes = elements * column.element_bytes;
  return bytes >= kShort ? bytes - kShort + 1 : 0;
}

[[noreturn]] inline void throw_refused(std::size_t element, const StreamSpec& stream,
                                       std::uint64_t sequence) {
  throw DataError("element " + std::to_string(element) +
                      " of the sequence does not fit the dtype that was asked for; declare a "
                      "wider dtype in its StreamDef",
                  {.stream = stream.name, .sequence = sequence});
}

// Copies elements of one column as the elements of a stream: as they are, or converted on the
// way.
class ColumnCopier {
 public:
  ColumnCopier(const Column& column, const StreamSpec& stream)
      : values_(column.values),
        element_bytes_(column.element_bytes),
        stream_(&stream),
        convert_(column.type == stream.type ? nullptr : converter(column.type, stream.type)),
        short_before_(convert_ == nullptr && values_ != nullptr ? short_before(column) : 0) {}

  // The place of an element, if its column is in memory, and the bytes of several.
  const std::byte* place(std::uint64_t first) const { return values_ + first * element_bytes_; }
  std::uint64_t bytes(std::uint64_t count) const noexcept { return count * element_bytes_; }
  bool converts() const noexcept { return convert_ != nullptr; }

  // Asks for some that are copied soon.
  [[gnu::always_inline]] void ask_for(std::uint64_t first, std::uint64_t count) const {
    prefetch(place(first), bytes(count));
  }

  // To be called in the order of `to`, after which kShort more bytes may be written. Throws
  // DataError naming the sequence if an element does not fit.
  [[gnu::always_inline]] void operator()(std::uint64_t first, std::uint64_t count,
                                         std::byte* to, std::uint64_t sequence) const {
    if (bytes(first) < short_before_ && bytes(count) <= kShort) {
      copy_short(place(first), to, bytes(count));
    } else {
      exactly(place(first), count, to, sequence);
    }
  }

  // The same from any place, where the bytes after it have been written already.
  [[gnu::always_inline]] void exactly(const std::byte* from, std::uint64_t count, std::byte* to,
                                      std::uint64_t sequence) const {
    if (convert_ == nullptr) {
      copy(from, to, bytes(count));
    } else if (const auto refused = convert_(from, to, count)) {
      throw_refused(*refused, *stream_, sequence);
    }
  }

 private:
  const std::byte* values_;
  std::uint64_t element_bytes_;
  const StreamSpec* stream_;
  Convert* convert_;            // null: they are copied as they are
  std::uint64_t short_before_;  // kShort bytes may be read from offsets below
};

// Bytes after which kShort more may be written.
inline Buffer take_with_room(BufferPool& pool, std::uint64_t bytes) {
  return pool.take(bytes + kShort).part(0, bytes);
}

}  // namespace sweephand
