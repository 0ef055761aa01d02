#include "formats/text_lines.hpp"

#include <cstddef>
#include <cstring>

namespace sweephand {

TextLines split_lines(std::span<const std::uint8_t> text) {
  TextLines lines{.bytes = {}, .offsets = {0}};
  lines.bytes.reserve(text.size());
  while (!text.empty()) {
    const auto* const end =
        static_cast<const std::uint8_t*>(std::memchr(text.data(), '\n', text.size()));
    const std::size_t next =
        end == nullptr ? text.size() : static_cast<std::size_t>(end - text.data()) + 1;
    std::size_t size = end == nullptr ? next : next - 1;
    if (end != nullptr && size > 0 && text[size - 1] == '\r') --size;
    lines.bytes.insert(lines.bytes.end(), text.data(), text.data() + size);
    lines.offsets.push_back(static_cast<std::int64_t>(lines.bytes.size()));
    text = text.subspan(next);
  }
  return lines;
}

}  // namespace sweephand
