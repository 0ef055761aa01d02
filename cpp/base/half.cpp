#include "base/half.hpp"

#include "base/cpu.hpp"

#include <algorithm>
#include <cstddef>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace sweephand {
namespace {

#ifdef __x86_64__

// Returns the number of leading elements that were converted: all but the last few.
[[gnu::target("avx,f16c")]] std::size_t widen_eights(std::span<const std::uint16_t> halves,
                                                     float* floats) noexcept {
  std::size_t i = 0;
  for (; i + 8 <= halves.size(); i += 8) {
    const auto* const from = reinterpret_cast<const __m128i*>(halves.data() + i);
    _mm256_storeu_ps(floats + i, _mm256_cvtph_ps(_mm_loadu_si128(from)));
  }
  return i;
}

[[gnu::target("avx,f16c")]] std::size_t round_eights(std::span<const float> floats,
                                                     std::uint16_t* halves) noexcept {
  std::size_t i = 0;
  for (; i + 8 <= floats.size(); i += 8) {
    auto* const to = reinterpret_cast<__m128i*>(halves + i);
    const __m256 values = _mm256_loadu_ps(floats.data() + i);
    _mm_storeu_si128(to, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}

#endif

}  // namespace

void widen_float16(std::span<const std::uint16_t> halves, std::span<float> floats) noexcept {
  std::size_t done = 0;
#ifdef __x86_64__
  if (cpu().f16c) done = widen_eights(halves, floats.data());
#endif
  std::ranges::transform(halves.subspan(done), floats.subspan(done).begin(), float16_to_float);
}

void round_to_float16(std::span<const float> floats, std::span<std::uint16_t> halves) noexcept {
  std::size_t done = 0;
#ifdef __x86_64__
  if (cpu().f16c) done = round_eights(floats, halves.data());
#endif
  std::ranges::transform(floats.subspan(done), halves.subspan(done).begin(), float_to_float16);
}

}  // namespace sweephand
