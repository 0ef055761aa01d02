// Varints by AVX-512: sixteen at a time, or eight longer ones.
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

__m512i in_fours(unsigned word) { return _mm512_set1_epi32(static_cast<int>(word)); }

// The lowest seven bits of each of four bytes, joined.
__m512i join_fours(__m512i bytes) {
  const __m512i sevens = _mm512_and_si512(bytes, in_fours(0x7f7f7f7f));
  const __m512i twos = _mm512_maddubs_epi16(in_fours(0x80018001), sevens);
  return _mm512_madd_epi16(twos, in_fours(0x40000001));
}

// Those of each of eight bytes.
__m512i join_eights(__m512i bytes) {
  const __m512i fours = join_fours(bytes);
  const __m512i low = _mm512_set1_epi64(0x0fffffff);
  return _mm512_or_si512(
      _mm512_and_si512(low, fours),
      _mm512_maskz_andnot_epi64(0xff, low, _mm512_maskz_srli_epi64(0xff, fours, 4)));
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

// Writes the first `number` varints, eight at most, and returns where they end; null if one has
// more than eight bytes.
const std::byte* decode_eights(const std::byte* bytes, unsigned number, std::int64_t* out) {
  constexpr std::uint64_t kFirsts = 0x0101010101010101;  // of eight bytes
  __m512i eights = _mm512_loadu_si512(bytes);
  const std::uint64_t goes_on = _mm512_movepi8_mask(eights);
  const std::uint64_t last = ~goes_on;
  const std::uint64_t end = _pdep_u64(std::uint64_t{1} << (number - 1), last);
  if (end == 0) return nullptr;
  if (last != kFirsts << 7) {  // not all have eight bytes
    std::uint64_t places = kFirsts;
    std::uint64_t after = ~std::uint64_t{0};  // bit i: byte i is not among the first k
    for (unsigned k = 1; k < 8; ++k) {
      after &= goes_on << k;
      places |= _pdep_u64(_pext_u64(after, last), kFirsts << k);
    }
    if ((after & (goes_on << 8) & (end | (end - 1))) != 0) return nullptr;
    eights = _mm512_maskz_expand_epi8(places, eights);
  }
  _mm512_mask_storeu_epi64(out, static_cast<__mmask8>((1U << number) - 1), join_eights(eights));
  return bytes + std::countr_zero(end) + 1;
}

// The first `number` varints, sixteen at most, as words of four bytes, and where they end; null
// if one has more than four bytes.
struct Words {
  __m512i words;
  const std::byte* end;
};

Words take_words(const std::byte* bytes, unsigned number) {
  constexpr std::uint64_t kFirsts = 0x1111111111111111;  // of four bytes
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
  if (end == 0 || (after_four & (end | (end - 1))) != 0) return {text, nullptr};
  // Every varint is spread to four bytes.
  const std::uint64_t places = kFirsts | _pdep_u64(_pext_u64(after_one, last), kFirsts << 1) |
                               _pdep_u64(_pext_u64(after_two, last), kFirsts << 2) |
                               _pdep_u64(_pext_u64(after_three, last), kFirsts << 3);
  return {join_fours(_mm512_maskz_expand_epi8(places, text)),
          bytes + std::countr_zero(end) + 1};
}

unsigned at_most(unsigned most, std::size_t count) {
  return static_cast<unsigned>(std::min<std::size_t>(most, count));
}

}  // namespace

const std::byte* decode_varints_avx512(const std::byte* bytes, std::size_t count,
                                       std::int64_t* out) {
  while (count > 0) {
    unsigned number = at_most(16, count);
    const Words short_ones = take_words(bytes, number);
    if (short_ones.end != nullptr) {
      store(out, short_ones.words, number);
      bytes = short_ones.end;
    } else {
      number = at_most(8, count);
      const std::byte* const end = decode_eights(bytes, number, out);
      bytes = end != nullptr ? end : decode_varints_bmi2(bytes, number, out);
      if (bytes == nullptr) return nullptr;
    }
    out += number;
    count -= number;
  }
  return bytes;
}

template <class T>
bool decode_short_varints_avx512(const std::byte* bytes, std::size_t count, T* out) {
  __m512i seen = _mm512_setzero_si512();  // the bits that some have
  while (count > 0) {
    const unsigned number = at_most(16, count);
    const Words found = take_words(bytes, number);
    if (found.end == nullptr) return false;
    const auto lanes = static_cast<__mmask16>((1U << number) - 1);
    if constexpr (sizeof(T) == 2) {
      seen = _mm512_mask_or_epi32(seen, lanes, seen, found.words);
      _mm512_mask_cvtepi32_storeu_epi16(out, lanes, found.words);
    } else {
      _mm512_mask_storeu_epi32(out, lanes, found.words);
    }
    bytes = found.end;
    out += number;
    count -= number;
  }
  return _mm512_test_epi32_mask(seen, in_fours(0xffff0000)) == 0;
}

template bool decode_short_varints_avx512(const std::byte*, std::size_t, std::uint16_t*);
template bool decode_short_varints_avx512(const std::byte*, std::size_t, std::int32_t*);

}  // namespace sweephand
// NOLINTEND(portability-simd-intrinsics)

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
