// Varints by AVX-512: sixteen short or eight long varints at a time.
#include "formats/varint.hpp"

#ifdef __x86_64__

#include <algorithm>
#include <bit>
#include <immintrin.h>

// Code between push and pop may use these instructions; callers check for them first.
#ifdef __clang__
#pragma clang attribute push(                                                \
    __attribute__((target("avx512f,avx512bw,avx512vbmi2,bmi,bmi2,popcnt"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vbmi2,bmi,bmi2,popcnt")
#endif

// NOLINTBEGIN(portability-simd-intrinsics): decode_portable is the portable one
namespace sweephand {
namespace {

// The forms with a mask of all lanes: without one, GCC 12 warns about its own header.

__m512i in_fours(unsigned word) { return _mm512_set1_epi32(static_cast<int>(word)); }

constexpr std::uint64_t kFirstsOfEight = 0x0101010101010101;  // bytes

unsigned count_ones(std::uint64_t bits) { return static_cast<unsigned>(std::popcount(bits)); }

// A mask of this many ones, from the lowest bit on; 64 at most.
std::uint64_t first_ones(std::size_t number) {
  return _bzhi_u64(~std::uint64_t{0}, number < 64 ? static_cast<unsigned>(number) : 64);
}

// Bit i is set if byte i of 64 is the last of a varint.
std::uint64_t find_last_bytes(const std::byte* bytes) {
  return ~_mm512_movepi8_mask(_mm512_loadu_si512(bytes));
}

// Bit i is set if byte i is not the first byte of a varint, not among its first two, three,
// four.
struct LaterBytes {
  explicit LaterBytes(std::uint64_t goes_on)
      : second(goes_on << 1),
        third(second & (goes_on << 2)),
        fourth(third & (goes_on << 3)),
        fifth(fourth & (goes_on << 4)) {}

  std::uint64_t second;
  std::uint64_t third;
  std::uint64_t fourth;
  std::uint64_t fifth;
};

// The lowest seven bits of each of four bytes, joined.
__m512i join_fours(__m512i bytes) {
  const __m512i sevens = _mm512_and_si512(bytes, in_fours(0x7f7f7f7f));
  const __m512i twos = _mm512_maddubs_epi16(in_fours(0x80018001), sevens);
  return _mm512_madd_epi16(twos, in_fours(0x40000001));
}

// The same for eight bytes.
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

// Writes the first `number` varints, eight at most, and returns their end; null if any has more
// than eight bytes.
const std::byte* decode_eights(const std::byte* bytes, unsigned number, std::int64_t* out) {
  constexpr std::uint64_t kFirsts = kFirstsOfEight;
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

// The first `number` varints, sixteen at most, as words of four bytes, and their end; null if
// any has more than four bytes.
struct Words {
  __m512i words;
  const std::byte* end;
};

Words take_words(const std::byte* bytes, unsigned number) {
  constexpr std::uint64_t kFirsts = 0x1111111111111111;  // of four bytes
  const __m512i text = _mm512_loadu_si512(bytes);
  const std::uint64_t goes_on = _mm512_movepi8_mask(text);
  const std::uint64_t last = ~goes_on;
  const LaterBytes later(goes_on);
  const std::uint64_t end = _pdep_u64(std::uint64_t{1} << (number - 1), last);
  if (end == 0 || (later.fifth & (end | (end - 1))) != 0) return {text, nullptr};
  // Every varint is spread to four bytes.
  const std::uint64_t places = kFirsts |
                               _pdep_u64(_pext_u64(later.second, last), kFirsts << 1) |
                               _pdep_u64(_pext_u64(later.third, last), kFirsts << 2) |
                               _pdep_u64(_pext_u64(later.fourth, last), kFirsts << 3);
  return {join_fours(_mm512_maskz_expand_epi8(places, text)),
          bytes + std::countr_zero(end) + 1};
}

unsigned at_most(unsigned most, std::size_t count) {
  return static_cast<unsigned>(std::min<std::size_t>(most, count));
}

}  // namespace

std::size_t count_varints_avx512(const std::byte* bytes, std::size_t size) {
  std::size_t count = 0;
  for (; size > 64; bytes += 64, size -= 64) count += count_ones(find_last_bytes(bytes));
  return count + count_ones(find_last_bytes(bytes) & first_ones(size));
}

const std::byte* decode_varints_avx512(const std::byte* bytes, std::size_t count,
                                       std::int64_t* out) {
  while (count > 0) {
    // Hashes have eight bytes each: the begin of the next is then known before they are read.
    while (count >= 8 && find_last_bytes(bytes) == kFirstsOfEight << 7) {
      _mm512_storeu_si512(out, join_eights(_mm512_loadu_si512(bytes)));
      bytes += 64;
      out += 8;
      count -= 8;
    }
    if (count == 0) break;
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
T* decode_short_varints_avx512(const std::byte* bytes, std::size_t size, T* out) {
  constexpr std::uint64_t kFirsts = 0x1111111111111111;  // of four bytes
  __m512i seen = _mm512_setzero_si512();                 // the bits that any has
  while (size > 0) {
    __m512i text = _mm512_loadu_si512(bytes);
    const std::uint64_t goes_on = _mm512_movepi8_mask(text);
    const std::uint64_t last = ~goes_on & first_ones(size);
    if (last == 0) return nullptr;
    const auto taken = static_cast<unsigned>(64 - std::countl_zero(last));
    const LaterBytes later(goes_on);
    if ((later.fifth & first_ones(taken)) != 0) return nullptr;
    // Bit i is set if varint i has a second byte, a third, a fourth.
    std::uint64_t second = _pext_u64(later.second, last);
    std::uint64_t third = _pext_u64(later.third, last);
    std::uint64_t fourth = _pext_u64(later.fourth, last);
    unsigned left = count_ones(last);
    std::uint64_t ends = last;  // of those that are left
    while (true) {
      const std::uint64_t places = kFirsts | _pdep_u64(second, kFirsts << 1) |
                                   _pdep_u64(third, kFirsts << 2) |
                                   _pdep_u64(fourth, kFirsts << 3);
      const __m512i words = join_fours(_mm512_maskz_expand_epi8(places, text));
      if constexpr (sizeof(T) == 2) {
        const auto lanes = static_cast<__mmask16>(first_ones(std::min(left, 16U)));
        seen = _mm512_mask_or_epi32(seen, lanes, seen, words);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                            _mm512_maskz_cvtepi32_epi16(0xffff, words));
      } else {
        _mm512_storeu_si512(out, words);
      }
      if (left <= 16) break;
      const std::uint64_t sixteenth = _pdep_u64(std::uint64_t{1} << 15, ends);
      ends &= ~(sixteenth | (sixteenth - 1));
      text = _mm512_loadu_si512(bytes + std::countr_zero(sixteenth) + 1);
      second >>= 16;
      third >>= 16;
      fourth >>= 16;
      out += 16;
      left -= 16;
    }
    out += left;
    bytes += taken;
    size -= taken;
  }
  return _mm512_test_epi32_mask(seen, in_fours(0xffff0000)) == 0 ? out : nullptr;
}

template std::uint16_t* decode_short_varints_avx512(const std::byte*, std::size_t,
                                                    std::uint16_t*);
template std::int32_t* decode_short_varints_avx512(const std::byte*, std::size_t,
                                                   std::int32_t*);

}  // namespace sweephand
// NOLINTEND(portability-simd-intrinsics)

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
