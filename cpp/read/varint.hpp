// Variable-length integers of Protocol Buffers
// (https://protobuf.dev/programming-guides/encoding).
//
//   1aaaaaaa 1bbbbbbb 0ccccccc   is  c b a: seven bits a byte, the lowest first, at most 64 in
//   all
#pragma once

#include "read/buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sweephand {

inline constexpr std::size_t kVarintPadding = 64;  // bytes behind the input that may be read

struct Varint {
  std::uint64_t value = 0;
  std::size_t size = 0;  // in bytes; 0 when it is cut off or has more than 64 bits
};

// The varint at the beginning of `bytes`.
Varint read_varint(std::span<const std::byte> bytes) noexcept;

// Adds all varints of `bytes` to `values`. False when one is cut off or has more than 64 bits;
// what was added then has no meaning. REQUIRES: kVarintPadding more bytes behind may be read
bool append_varints(std::span<const std::byte> bytes, Buffer<std::int64_t>& values);

// The same on any processor.
bool append_varints_portable(std::span<const std::byte> bytes, Buffer<std::int64_t>& values);

}  // namespace sweephand
