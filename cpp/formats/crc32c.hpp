// CRC32C (Castagnoli, reflected polynomial 0x82f63b78), as TFRecord masks it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sweephand {

// By the processor's own instruction where it has one.
std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

// The same by tables, on any processor.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes) noexcept;

// A checksum that is stored beside the data it covers is masked, so that a checksum over both
// does not degenerate.
constexpr std::uint32_t mask_crc(std::uint32_t crc) noexcept {
  return std::rotr(crc, 15) + 0xa282ead8U;
}

}  // namespace sweephand
