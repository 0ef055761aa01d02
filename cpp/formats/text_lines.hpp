// Lines of plain text, without their ends: LF, or CR and LF.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

struct TextLines {
  std::vector<std::uint8_t> bytes;    // of all lines, one behind the other
  std::vector<std::int64_t> offsets;  // where each begins, and the end
};

// Text after the last LF is a line too, if it is not empty.
TextLines split_lines(std::span<const std::uint8_t> text);

}  // namespace sweephand
