// The grammar of JSON (RFC 8259), token by token. Text ends with a zero byte, after which a few
// more can be read; text that is not ordinary gives a null pointer, and is left to another
// parser.
#pragma once

#include "formats/decimal.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace sweephand {

inline bool is_control(char byte) noexcept { return static_cast<unsigned char>(byte) < 0x20; }

inline const char* skip_whitespace(const char* text) noexcept {
  while (*text == ' ' || *text == '\t' || *text == '\r') ++text;
  return text;
}

// The end of `word` at `text`; null if the text differs.
inline const char* skip_word(const char* text, std::string_view word) noexcept {
  return std::equal(word.begin(), word.end(), text) ? text + word.size() : nullptr;
}

// The end of a number by the grammar of JSON, and whether it has a fraction or an exponent.
struct NumberEnd {
  const char* end = nullptr;  // null: there is no number
  bool is_float = false;
};

[[gnu::always_inline]] inline NumberEnd end_number(const char* digits,
                                                   const char* end) noexcept {
  if (end == digits || (*digits == '0' && end != digits + 1)) return {};
  if (*end != '.' && !is_e(*end)) return {.end = end};
  if (*end == '.') {
    const char* const fraction = end + 1;
    end = read_digits(fraction).end;
    if (end == fraction) return {};
  }
  if (is_e(*end)) {
    const char* exponent = end + 1;
    if (*exponent == '-' || *exponent == '+') ++exponent;
    end = read_digits(exponent).end;
    if (end == exponent) return {};
  }
  return {.end = end, .is_float = true};
}

struct Escape {
  const char* end = nullptr;  // null: it is none, or half a surrogate pair
  std::uint32_t code_point = 0;
};

// `text` follows the backslash.
Escape read_escape(const char* text) noexcept;

// The end of a value that is skipped.
const char* skip_value(const char* text) noexcept;

}  // namespace sweephand
