// Characters of text in UTF-8 (RFC 3629).
#pragma once

#include "read/column_vector.hpp"

#include <cstdint>
#include <span>

namespace sweephand {

// True if all bytes are characters. REQUIRES: seven more bytes than `text` has can be read
bool is_utf8(std::span<const char> text) noexcept;

void append_utf8(std::uint32_t code_point, ColumnVector<char>& text);

}  // namespace sweephand
