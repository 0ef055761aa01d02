#include "base/resize_avx2.hpp"

#ifdef __x86_64__

#include <array>
#include <cstring>
#include <immintrin.h>

// NOLINTBEGIN(portability-simd-intrinsics): the portable ones are in base/resize.cpp
namespace sweephand {
namespace {

constexpr std::size_t kNumbers = 16;  // of 16 bits, in a register
constexpr int kLowBits = 15;
constexpr int kFraction = FilterKernel::kFraction;

// NOLINTBEGIN(bugprone-signed-bitwise): both as they are for numbers below 0
std::int16_t low_of(std::int32_t weight) noexcept {
  return static_cast<std::int16_t>(weight & ((1 << kLowBits) - 1));
}

std::int16_t high_of(std::int32_t weight) noexcept {
  return static_cast<std::int16_t>(weight >> kLowBits);
}
// NOLINTEND(bugprone-signed-bitwise)

// Two weights as one number, the first of which is in its lower half.
std::int32_t pair_of(std::int16_t first, std::int16_t second) noexcept {
  return static_cast<std::int32_t>(
      static_cast<std::uint16_t>(first) |
      static_cast<std::uint32_t>(static_cast<std::uint16_t>(second)) << 16);
}

}  // namespace

std::vector<std::int16_t> pairs_of(const FilterKernel& kernel) {
  constexpr std::size_t kTogether = FilterKernel::kTogether;
  std::vector<std::int16_t> pairs;
  pairs.reserve(kernel.weights.size() / kTogether * 2 * kNumbers);
  for (std::size_t at = 0; at < kernel.weights.size(); at += kTogether) {
    const std::int32_t* const four = kernel.weights.data() + at;
    for (const auto part : {low_of, high_of}) {
      for (std::size_t i = 0; i < kNumbers; ++i)
        pairs.push_back(part(four[i / (kNumbers / 2) * 2 + i % 2]));
    }
  }
  return pairs;
}

[[gnu::target("avx2")]] void weigh_row_avx2(const std::uint8_t* row, const FilterKernel& kernel,
                                            const std::int16_t* pairs,
                                            std::uint8_t* out) noexcept {
  constexpr char kZero = -1;
  const __m256i interleave = _mm256_setr_epi8(
      0, kZero, 4, kZero, 1, kZero, 5, kZero, 2, kZero, 6, kZero, 3, kZero, 7, kZero, 8, kZero,
      12, kZero, 9, kZero, 13, kZero, 10, kZero, 14, kZero, 11, kZero, 15, kZero);
  const __m128i half = _mm_set1_epi32(FilterKernel::kHalf);
  for (const std::size_t first : kernel.first) {
    const std::uint8_t* from = row + first * kResizedPixel;
    __m256i lows = _mm256_setzero_si256();
    __m256i highs = _mm256_setzero_si256();
    for (std::size_t t = 0; t < kernel.taps; t += FilterKernel::kTogether) {
      const __m256i pixels = _mm256_broadcastsi128_si256(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + t * kResizedPixel)));
      const __m256i values = _mm256_shuffle_epi8(pixels, interleave);
      const auto* const weights = reinterpret_cast<const __m256i*>(pairs);
      lows = _mm256_add_epi32(lows, _mm256_madd_epi16(values, _mm256_loadu_si256(weights)));
      highs =
          _mm256_add_epi32(highs, _mm256_madd_epi16(values, _mm256_loadu_si256(weights + 1)));
      pairs += 2 * kNumbers;
    }
    const __m256i both = _mm256_add_epi32(lows, _mm256_slli_epi32(highs, kLowBits));
    const __m128i sums =
        _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    const __m128i rounded = _mm_srai_epi32(_mm_add_epi32(sums, half), kFraction);
    const __m128i words = _mm_packs_epi32(rounded, rounded);
    const int pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    std::memcpy(out, &pixel, kResizedPixel);
    out += kResizedPixel;
  }
}

[[gnu::target("avx2")]] void weigh_rows_avx2(const WeighedRows& rows,
                                             std::uint8_t* out) noexcept {
  constexpr std::size_t kTile = WeighedRows::kTile;
  const std::size_t taps = rows.weights.size();
  const __m256i half = _mm256_set1_epi32(FilterKernel::kHalf);
  for (std::size_t at = 0; at < rows.row_bytes; at += kTile) {
    __m256i lows = _mm256_setzero_si256();
    __m256i highs = _mm256_setzero_si256();
    __m256i next_lows = _mm256_setzero_si256();
    __m256i next_highs = _mm256_setzero_si256();
    for (std::size_t t = 0; t < taps; t += 2) {
      const std::uint8_t* const from = rows.first + t * rows.row_bytes + at;
      const bool has_two = t + 1 < taps;  // else the same row again, with a weight of 0
      const std::int32_t first = rows.weights[t];
      const std::int32_t second = has_two ? rows.weights[t + 1] : 0;
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      const __m128i b = _mm_loadu_si128(
          reinterpret_cast<const __m128i*>(has_two ? from + rows.row_bytes : from));
      const __m256i low = _mm256_set1_epi32(pair_of(low_of(first), low_of(second)));
      const __m256i high = _mm256_set1_epi32(pair_of(high_of(first), high_of(second)));
      const __m256i values = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
      const __m256i next_values = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
      lows = _mm256_add_epi32(lows, _mm256_madd_epi16(values, low));
      highs = _mm256_add_epi32(highs, _mm256_madd_epi16(values, high));
      next_lows = _mm256_add_epi32(next_lows, _mm256_madd_epi16(next_values, low));
      next_highs = _mm256_add_epi32(next_highs, _mm256_madd_epi16(next_values, high));
    }
    const __m256i sums =
        _mm256_add_epi32(half, _mm256_add_epi32(lows, _mm256_slli_epi32(highs, kLowBits)));
    const __m256i next_sums = _mm256_add_epi32(
        half, _mm256_add_epi32(next_lows, _mm256_slli_epi32(next_highs, kLowBits)));
    // Lanes of 128 bits are packed separately: the middle parts change places.
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_srai_epi32(sums, kFraction),
                                                    _mm256_srai_epi32(next_sums, kFraction)),
                                 0b11011000);
    const __m128i tile =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    if (rows.row_bytes - at >= kTile) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + at), tile);
    } else {
      std::array<std::uint8_t, kTile> last;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(last.data()), tile);
      std::memcpy(out + at, last.data(), rows.row_bytes - at);
    }
  }
}

}  // namespace sweephand
// NOLINTEND(portability-simd-intrinsics)

#endif
