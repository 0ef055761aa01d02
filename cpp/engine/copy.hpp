// Copies of samples, most of which are short.
#pragma once

#include "engine/buffer.hpp"
#include "read/column.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sweephand {

constexpr std::uint64_t kCacheLine = 64;  // bytes

// Asks for the beginning of some bytes; the processor follows from there by itself. Inlined by
// force, as a call without effect is dropped.
[[gnu::always_inline]] inline void prefetch(const std::byte* data, std::uint64_t bytes,
                                            std::uint64_t most_lines) {
  if (bytes == 0) return;
  const std::uint64_t last = std::min(bytes, most_lines * kCacheLine) - 1;
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

// What is short is copied without a call, together with whatever lies behind it, if that is
// written over by what comes next: kShort bytes in all.
constexpr std::uint64_t kShort = 32;

// Of no more bytes than need be, as those behind may lie on a line that nobody has asked for.
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

// Bytes behind which kShort more may be written.
inline Buffer take_with_room(BufferPool& pool, std::uint64_t bytes) {
  return pool.take(bytes + kShort).part(0, bytes);
}

}  // namespace sweephand
