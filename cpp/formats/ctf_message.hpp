// Messages on a line in CNTK's text format.
#pragma once

#include "formats/ctf_column.hpp"
#include "formats/ctf_format.hpp"

#include <string>
#include <string_view>

namespace sweephand {

// The text expected at the fault.
std::string describe_expected(CtfFault::Kind kind, const CtfStream& stream);

// The text found there: the beginning of the rest of the line.
std::string describe_found(std::string_view rest);

// The text between quotation marks, cut after 80 bytes, with its odd bytes escaped.
std::string quote(std::string_view text);

}  // namespace sweephand
