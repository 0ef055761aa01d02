// Variable-length integers of Protocol Buffers
// (https://protobuf.dev/programming-guides/encoding).
//
//   1aaaaaaa 1bbbbbbb 0ccccccc   is  c b a: seven bits a byte, the lowest first, at most 64 in
//   all
#pragma once

#include "read/column.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

inline constexpr std::size_t kVarintPadding = 64;  // bytes behind the input that may be read

struct Varint {
  std::uint64_t value = 0;
  std::size_t size = 0;  // in bytes; 0 when it is cut off or has more than 64 bits
};

// The varint at the beginning of `bytes`.
Varint read_varint(std::span<const std::byte> bytes) noexcept;

// Adds all varints of `bytes` to `values`. False when one is cut off or has more than 64 bits;
// the added values are then undefined. REQUIRES: kVarintPadding more bytes after `bytes` may be
// read
bool append_varints(std::span<const std::byte> bytes, ColumnVector<std::int64_t>& values);

// Writes the `count` consecutive varints from `bytes` on, and returns their end; null when one
// has more than 64 bits. REQUIRES: kVarintPadding more bytes after them may be read
using DecodeVarints = const std::byte* (*)(const std::byte* bytes, std::size_t count,
                                           std::int64_t* out);

// The ways to do so on this processor: the portable one first, the fastest last.
std::vector<DecodeVarints> ways_to_decode_varints();

// REQUIRES: cpu().bmi2
const std::byte* decode_varints_bmi2(const std::byte* bytes, std::size_t count,
                                     std::int64_t* out);

}  // namespace sweephand
