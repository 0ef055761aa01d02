#include "formats/json_text.hpp"

#include <cstddef>

namespace sweephand {
namespace {

constexpr int kMaxDepth = 64;                 // of lists and objects that are skipped
constexpr std::ptrdiff_t kMaxSkipped = 4000;  // digits; some parsers refuse longer integers

// Four hexadecimal digits; more than 0xffff if they are invalid.
std::uint32_t read_hex(const char* text) noexcept {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned byte = static_cast<unsigned char>(text[i]);
    const unsigned lower = byte | 0x20U;
    if (byte >= '0' && byte <= '9') {
      value = value * 16 + (byte - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + (lower - 'a' + 10);
    } else {
      return 0x10000;
    }
  }
  return value;
}

// `text` begins after the quotation mark.
const char* skip_text(const char* text) noexcept {
  while (*text != '"') {
    if (is_control(*text)) return nullptr;
    if (*text++ != '\\') continue;
    if (*text == 'u' ? read_hex(text + 1) > 0xffff : read_escape(text).end == nullptr)
      return nullptr;
    ++text;
  }
  return text + 1;
}

const char* skip_value(const char* text, int depth) noexcept;

// A list or an object, from after its opening bracket to its end.
const char* skip_items(const char* text, bool is_object, int depth) noexcept {
  const char closing = is_object ? '}' : ']';
  text = skip_whitespace(text);
  if (*text == closing) return text + 1;
  while (true) {
    if (is_object) {
      if (*text != '"') return nullptr;
      text = skip_text(text + 1);
      if (text == nullptr) return nullptr;
      text = skip_whitespace(text);
      if (*text != ':') return nullptr;
      text = skip_whitespace(text + 1);
    }
    text = skip_value(text, depth);
    if (text == nullptr) return nullptr;
    text = skip_whitespace(text);
    if (*text == closing) return text + 1;
    if (*text != ',') return nullptr;
    text = skip_whitespace(text + 1);
  }
}

const char* skip_value(const char* text, int depth) noexcept {  // NOLINT(misc-no-recursion)
  if (*text == '"') return skip_text(text + 1);
  if (*text == '[' || *text == '{')
    return depth == 0 ? nullptr : skip_items(text + 1, *text == '{', depth - 1);
  if (*text == 't') return skip_word(text, "true");
  if (*text == 'f') return skip_word(text, "false");
  if (*text == 'n') return skip_word(text, "null");
  const char* const digits = *text == '-' ? text + 1 : text;
  const char* const end = end_number(digits, read_digits(digits).end).end;
  return end == nullptr || end - digits > kMaxSkipped ? nullptr : end;
}

}  // namespace

Escape read_escape(const char* text) noexcept {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (*text != 'u') {
    const std::size_t place = kLetters.find(*text);
    if (place == std::string_view::npos) return {};
    return {.end = text + 1, .code_point = static_cast<std::uint32_t>(kMeanings[place])};
  }
  const std::uint32_t first = read_hex(text + 1);
  if (first > 0xffff || (first >= 0xdc00 && first < 0xe000)) return {};
  if (first < 0xd800 || first >= 0xe000) return {.end = text + 5, .code_point = first};
  if (text[5] != '\\' || text[6] != 'u') return {};
  const std::uint32_t second = read_hex(text + 7);
  if (second < 0xdc00 || second > 0xdfff) return {};
  return {.end = text + 11,
          .code_point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)};
}

const char* skip_value(const char* text) noexcept { return skip_value(text, kMaxDepth); }

}  // namespace sweephand
