// The ends of items and lines of CNTK's text, at every "|" and line feed, found 64 bytes at a
// time. None depends on the one before it, so the processor reads several at once.
//
//   7 |A 1:1 |# text |B 3:1 LF
//     ^      ^       ^      ^
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace sweephand {

class ItemFinder {
 public:
  static constexpr std::ptrdiff_t kBlock = 64;

  ItemFinder() = default;

  // From `text` on.
  explicit ItemFinder(const char* text) noexcept { look_at(text); }

  // The first one at `text` or after it. REQUIRES: there is one, and kBlock more bytes after it
  // may be read; those before `text` were all returned
  [[gnu::always_inline]] const char* next(const char* text) noexcept {
    if (text - block_ >= kBlock) look_at(text);
    return next();
  }

  // The first one after those that were returned. REQUIRES: as above
  [[gnu::always_inline]] const char* next() noexcept {
    while (found_ == 0) look_at(block_ + kBlock);
    const char* const at = block_ + std::countr_zero(found_);
    found_ &= found_ - 1;
    return at;
  }

 private:
  void look_at(const char* block) noexcept {
    block_ = block;
    found_ = 0;
#ifdef __SSE2__
    for (int i = 0; i < 4; ++i) {
      const __m128i bytes =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + std::ptrdiff_t{16} * i));
      // NOLINTBEGIN(portability-simd-intrinsics): the portable way is below
      const __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('|')),
                                         _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')));
      // NOLINTEND(portability-simd-intrinsics)
      found_ |= std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(found))} << (16 * i);
    }
#else
    for (int i = 0; i < 8; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, block + std::ptrdiff_t{8} * i, sizeof word);
      if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
      constexpr std::uint64_t kOnes = 0x0101010101010101;
      const std::uint64_t found = zeros(word ^ kOnes * '|') | zeros(word ^ kOnes * '\n');
      found_ |= (((found >> 7) * 0x0102040810204080) >> 56) << (8 * i);
    }
#endif
  }

  // The high bit of every byte that is zero.
  static std::uint64_t zeros(std::uint64_t word) noexcept {
    constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
    return ~(((word & kLow) + kLow) | word | kLow);
  }

  const char* block_ = nullptr;
  std::uint64_t found_ = 0;  // bit i: byte i of the block is one that was not returned yet
};

}  // namespace sweephand
