// Lines, words and numbers of small texts.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

namespace sweephand {

inline constexpr std::string_view kBlanks = " \t\r\v\f";

inline std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// The first word, which is taken off `rest`; empty where there is none.
inline std::string_view take_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
  rest.remove_prefix(word.size());
  return word;
}

// The first line without its end; both are taken off `rest`.
inline std::string_view take_line(std::string_view& rest) {
  const std::size_t size = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, size);
  rest.remove_prefix(std::min(size + 1, rest.size()));
  return line;
}

// The integer that a text is, if it is one and nothing else.
template <class T>
std::optional<T> to_number(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

inline std::string_view to_view(std::span<const char> text) {
  return {text.data(), text.size()};
}

}  // namespace sweephand
