#include "formats/ctf_message.hpp"

#include <algorithm>
#include <cstddef>

namespace sweephand {
namespace {

std::string escape(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      escaped += c;
    } else {
      escaped += {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return escaped;
}

}  // namespace

std::string describe_found(std::string_view rest) {
  constexpr std::size_t kMost = 24;
  if (rest.empty()) return "the end of the line";
  // At least one byte, up to the next end of a value.
  const std::size_t size = std::min(rest.find_first_of(" \t|", 1), kMost);
  std::string found = "'";
  found += escape(rest.substr(0, size));
  return found += '\'';
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  quoted += escape(text.substr(0, 80));
  return quoted += '"';
}

std::string describe_expected(CtfFault::Kind kind, const CtfStream& stream) {
  const std::string dimension = std::to_string(stream.dimension);
  switch (kind) {
    case CtfFault::Kind::kNumber:
      return "a number like 5, -0.5 or 3e8";
    case CtfFault::Kind::kNumberRange:
      return "a number within the range of its type";
    case CtfFault::Kind::kFraction:
      return "an integer";
    case CtfFault::Kind::kDelimiter:
      return "a blank, '|' or the end of the line behind a number";
    case CtfFault::Kind::kIndex:
      return "an index and a number like 7:0.5";
    case CtfFault::Kind::kIndexRange:
      return "an index below " + dimension + " (is the declared shape right?)";
    case CtfFault::Kind::kColon:
      return "':' behind the index";
    case CtfFault::Kind::kTooMany:
      return "no number beyond the " + dimension + " of its shape (is it right?)";
    case CtfFault::Kind::kTooFew:
      return dimension + " numbers";
    case CtfFault::Kind::kRepeated:
      return "every index once";
  }
  return {};
}

}  // namespace sweephand
