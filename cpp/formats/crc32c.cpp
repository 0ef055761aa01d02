// The instruction takes three cycles and starts one every cycle, so three equal lanes are
// summed side by side and then joined:
//
//   | lane a: w words | lane b: w words | lane c: w words | next round or rest |
//   crc = a * x^(128 w) + b * x^(64 w) + c     (polynomials over GF(2), modulo the CRC's)
#include "formats/crc32c.hpp"

#include "base/cpu.hpp"
#include "base/little_endian.hpp"

#include <algorithm>
#include <array>

#ifdef __x86_64__
#include <nmmintrin.h>
#include <wmmintrin.h>
#endif

namespace sweephand {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // bit 31 is x^0

// p * x
constexpr std::uint32_t times_x(std::uint32_t p) noexcept {
  return (p >> 1) ^ ((p & 1) != 0 ? kPolynomial : 0);
}

// tables[k][b] is the contribution of byte b to the CRC when k more bytes follow.
constexpr std::array<std::array<std::uint32_t, 256>, 8> make_tables() noexcept {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = times_x(crc);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 255];
    }
  }
  return tables;
}

constexpr auto kTables = make_tables();

#ifdef __x86_64__

constexpr std::size_t kMaxLaneWords = 128;
constexpr std::size_t kMinLaneWords = 4;  // below that joining costs more than it gains

struct Factors {
  std::uint32_t a;  // x^(128 w - 33)
  std::uint32_t b;  // x^(64 w - 33)
};

// factors[w] for lanes of w words. A carry-less product and the CRC instruction add the 33: one
// because the product of reflected numbers is one bit short, 32 because a CRC leaves room for
// its checksum.
constexpr std::array<Factors, kMaxLaneWords + 1> make_factors() noexcept {
  std::array<Factors, kMaxLaneWords + 1> factors{};
  std::uint32_t power = std::uint32_t{1} << 31;  // x^0
  for (std::size_t n = 0; n <= 128 * kMaxLaneWords - 33; ++n) {
    if ((n + 33) % 64 == 0 && (n + 33) / 64 <= kMaxLaneWords) factors[(n + 33) / 64].b = power;
    if ((n + 33) % 128 == 0) factors[(n + 33) / 128].a = power;
    power = times_x(power);
  }
  return factors;
}

constexpr auto kFactors = make_factors();

[[gnu::target("sse4.2,crc32,pclmul")]] std::uint64_t times(std::uint64_t crc,
                                                           std::uint32_t factor) noexcept {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(crc)),
                                               _mm_cvtsi32_si128(static_cast<int>(factor)), 0);
  return _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)));
}

[[gnu::target("sse4.2,crc32,pclmul")]] std::uint32_t crc32c_hardware(
    std::span<const std::byte> bytes) noexcept {
  std::uint64_t crc = 0xffffffff;
  while (bytes.size() >= 24 * kMinLaneWords) {
    const std::size_t words = std::min(kMaxLaneWords, bytes.size() / 24);
    const std::size_t lane = 8 * words;
    std::uint64_t b = 0;
    std::uint64_t c = 0;
    for (std::size_t i = 0; i < lane; i += 8) {
      crc = _mm_crc32_u64(crc, load_le64(bytes.subspan(i)));
      b = _mm_crc32_u64(b, load_le64(bytes.subspan(lane + i)));
      c = _mm_crc32_u64(c, load_le64(bytes.subspan(2 * lane + i)));
    }
    crc = times(crc, kFactors[words].a) ^ times(b, kFactors[words].b) ^ c;
    bytes = bytes.subspan(3 * lane);
  }
  for (; bytes.size() >= 8; bytes = bytes.subspan(8))
    crc = _mm_crc32_u64(crc, load_le64(bytes));
  auto rest = static_cast<std::uint32_t>(crc);
  for (const std::byte byte : bytes)
    rest = _mm_crc32_u8(rest, std::to_integer<unsigned char>(byte));
  return ~rest;
}

#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes) noexcept {
  std::uint32_t crc = 0xffffffff;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const std::uint64_t word = load_le64(bytes) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 255];
  }
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 255];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
#ifdef __x86_64__
  if (cpu().crc32c) return crc32c_hardware(bytes);
#endif
  return crc32c_portable(bytes);
}

}  // namespace sweephand
