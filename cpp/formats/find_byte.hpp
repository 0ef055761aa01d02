// Finds the next byte of a kind, sixteen bytes at a time if the machine can.
#pragma once

#include <bit>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace sweephand {

// The first "|" or line feed from `text` on. REQUIRES: there is one, and 15 more bytes after it
// may be read
inline const char* find_pipe_or_line_feed(const char* text) noexcept {
#ifdef __SSE2__
  for (;; text += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
    const __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('|')),
                                       _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')));
    const int mask = _mm_movemask_epi8(found);
    if (mask != 0) return text + std::countr_zero(static_cast<unsigned>(mask));
  }
#else
  while (*text != '|' && *text != '\n') ++text;
  return text;
#endif
}

// The first "|" or control character but the tab. REQUIRES: as above
inline const char* find_pipe_or_control(const char* text) noexcept {
#ifdef __SSE2__
  const __m128i last_control = _mm_set1_epi8(0x1f);
  for (;; text += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
    const __m128i control =
        _mm_cmpeq_epi8(_mm_subs_epu8(bytes, last_control), _mm_setzero_si128());
    const __m128i tab = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'));
    const __m128i pipe = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('|'));
    const int mask = _mm_movemask_epi8(_mm_or_si128(_mm_andnot_si128(tab, control), pipe));
    if (mask != 0) return text + std::countr_zero(static_cast<unsigned>(mask));
  }
#else
  const auto is_control = [](char byte) { return static_cast<unsigned char>(byte) < 0x20; };
  while (*text != '|' && (!is_control(*text) || *text == '\t')) ++text;
  return text;
#endif
}

}  // namespace sweephand
