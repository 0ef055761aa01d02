// Integers out of little-endian bytes, on any platform and at any alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace sweephand {

// The first four bytes as an integer. REQUIRES: bytes.size() >= 4
inline std::uint32_t load_le32(std::span<const std::byte> bytes) noexcept {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
}

// The first eight bytes as an integer. REQUIRES: bytes.size() >= 8
inline std::uint64_t load_le64(std::span<const std::byte> bytes) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

}  // namespace sweephand
