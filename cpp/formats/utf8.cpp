#include "formats/utf8.hpp"

#include <cstddef>
#include <cstring>

namespace sweephand {
namespace {

// The number of bytes of a character after its first; 0 if it is invalid.
std::size_t count_utf8(const unsigned char* text) noexcept {
  const unsigned lead = text[0];
  const auto follows = [](unsigned char byte) { return (byte & 0xc0) == 0x80; };
  if (lead < 0xc2 || lead > 0xf4 || !follows(text[1])) return 0;
  if (lead < 0xe0) return 1;
  // Neither too long, nor half a surrogate pair, nor beyond the last code point.
  if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] >= 0xa0) ||
      !follows(text[2]))
    return 0;
  if (lead < 0xf0) return 2;
  if ((lead == 0xf0 && text[1] < 0x90) || (lead == 0xf4 && text[1] >= 0x90) ||
      !follows(text[3]))
    return 0;
  return 3;
}

}  // namespace

bool is_utf8(std::span<const char> text) noexcept {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at < end) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, at, sizeof eight);
    if ((eight & 0x8080808080808080) == 0) {
      at += sizeof eight;
    } else if (*at < 0x80) {
      ++at;
    } else {
      const std::size_t more = count_utf8(at);
      if (more == 0) return false;
      at += 1 + more;
    }
  }
  return true;
}

void append_utf8(std::uint32_t code_point, ColumnVector<char>& text) {
  const auto add = [&text](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto add_six = [&](unsigned shift) { add(0x80 | ((code_point >> shift) & 0x3f)); };
  if (code_point < 0x80) {
    add(code_point);
    return;
  }
  if (code_point < 0x800) {
    add(0xc0 | (code_point >> 6));
  } else if (code_point < 0x10000) {
    add(0xe0 | (code_point >> 12));
    add_six(6);
  } else {
    add(0xf0 | (code_point >> 18));
    add_six(12);
    add_six(6);
  }
  add_six(0);
}

}  // namespace sweephand
