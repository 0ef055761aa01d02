// Varints by AVX-512: sixteen at a time.
#include "formats/varint.hpp"

#ifdef __x86_64__

#include <algorithm>
#include <bit>
#include <immintrin.h>

// What stands between push and pop may use these instructions; it is called only after asking.
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vbmi2,bmi,bmi2"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vbmi2,bmi,bmi2")
#endif

// NOLINTBEGIN(portability-simd-intrinsics): decode_portable is the portable one
namespace sweephand {
namespace {

// The forms with a mask of all lanes: without one, GCC 12 warns of what its own header does.

__m512i keep(__m512i words, int bits) {
  return _mm512_and_si512(words, _mm512_set1_epi32(bits));
}

__m512i shift_right(__m512i words, unsigned places) {
  return _mm512_maskz_srli_epi32(0xffff, words, places);
}

// The lowest seven bits of each of four bytes, joined.
__m512i join_sevens(__m512i words) {
  words = _mm512_or_si512(keep(words, 0x007f007f), shift_right(keep(words, 0x7f007f00), 1));
  return _mm512_or_si512(keep(words, 0x00003fff), shift_right(keep(words, 0x3fff0000), 2));
}

// The lowest `number` of sixteen words.
void store(std::int64_t* out, __m512i words, unsigned number) {
  const unsigned lanes = (1U << number) - 1;
  const auto first = static_cast<__mmask8>(lanes);
  const auto second = static_cast<__mmask8>(lanes >> 8);
  const __m256i low = _mm512_maskz_extracti64x4_epi64(0xff, words, 0);
  const __m256i high = _mm512_maskz_extracti64x4_epi64(0xff, words, 1);
  _mm512_mask_storeu_epi64(out, first, _mm512_maskz_cvtepu32_epi64(first, low));
  _mm512_mask_storeu_epi64(out + 8, second, _mm512_maskz_cvtepu32_epi64(second, high));
}

}  // namespace

const std::byte* decode_varints_avx512(const std::byte* bytes, std::size_t count,
                                       std::int64_t* out) {
  constexpr std::uint64_t kFirsts = 0x1111111111111111;  // of four bytes
  while (count > 0) {
    const auto number = static_cast<unsigned>(std::min<std::size_t>(count, 16));
    const __m512i text = _mm512_loadu_si512(bytes);
    const std::uint64_t goes_on = _mm512_movepi8_mask(text);
    // Bit i says that byte i is the last of a varint; that it is not the first, not one of the
    // first two, three, four.
    const std::uint64_t last = ~goes_on;
    const std::uint64_t after_one = goes_on << 1;
    const std::uint64_t after_two = after_one & (goes_on << 2);
    const std::uint64_t after_three = after_two & (goes_on << 3);
    const std::uint64_t after_four = after_three & (goes_on << 4);
    const std::uint64_t end = _pdep_u64(std::uint64_t{1} << (number - 1), last);
    if (end != 0 && (after_four & (end | (end - 1))) == 0) {
      // Every varint is spread to four bytes.
      const std::uint64_t places = kFirsts |
                                   _pdep_u64(_pext_u64(after_one, last), kFirsts << 1) |
                                   _pdep_u64(_pext_u64(after_two, last), kFirsts << 2) |
                                   _pdep_u64(_pext_u64(after_three, last), kFirsts << 3);
      store(out, join_sevens(_mm512_maskz_expand_epi8(places, text)), number);
      bytes += std::countr_zero(end) + 1;
    } else {
      bytes = decode_varints_bmi2(bytes, number, out);
      if (bytes == nullptr) return nullptr;
    }
    out += number;
    count -= number;
  }
  return bytes;
}

}  // namespace sweephand
// NOLINTEND(portability-simd-intrinsics)

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
