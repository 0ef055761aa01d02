// Variable-length integers of Protocol Buffers
// (https://protobuf.dev/programming-guides/encoding).
//
//   1aaaaaaa 1bbbbbbb 0ccccccc   is  c b a: seven bits a byte, the lowest first, at most 64 in
//   all
#pragma once

#include "read/column_vector.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

inline constexpr std::size_t kVarintPadding = 64;  // bytes behind the input that may be read
inline constexpr std::size_t kVarintSpare = 15;  // elements behind short ones that are written

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

// Adds all varints of `bytes` to `values` if they are short, T holds them, and this processor
// reads such ones at once; else false, and nothing is added. REQUIRES: as above; T is uint16 or
// int32
template <class T>
bool append_short_varints(std::span<const std::byte> bytes, ColumnVector<T>& values);

// Writes the `count` consecutive varints from `bytes` on, and returns their end; null when one
// has more than 64 bits. REQUIRES: kVarintPadding more bytes after them may be read
using DecodeVarints = const std::byte* (*)(const std::byte* bytes, std::size_t count,
                                           std::int64_t* out);

// The ways to do so on this processor: the portable one first, the fastest last.
std::vector<DecodeVarints> ways_to_decode_varints();

// REQUIRES: cpu().bmi2, cpu().avx512
const std::byte* decode_varints_bmi2(const std::byte* bytes, std::size_t count,
                                     std::int64_t* out);
const std::byte* decode_varints_avx512(const std::byte* bytes, std::size_t count,
                                       std::int64_t* out);

// How many varints end in so many bytes. REQUIRES: cpu().avx512, padding as above
std::size_t count_varints_avx512(const std::byte* bytes, std::size_t size);

// Writes the varints in `size` bytes, of which the last one ends a varint, and returns where
// they end in `out`; null if one has more than four bytes, or T, uint16 or int32, does not hold
// it. REQUIRES: cpu().avx512, padding as above, and that kVarintSpare elements more than there
// are varints may be written
template <class T>
T* decode_short_varints_avx512(const std::byte* bytes, std::size_t size, T* out);

}  // namespace sweephand
