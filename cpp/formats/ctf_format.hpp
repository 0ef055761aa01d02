// The user's declarations for a file in CNTK's text format.
#pragma once

#include "read/column.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sweephand {

struct CtfStream {
  std::string field;            // the name in the file, without "|"
  std::uint64_t dimension = 1;  // numbers in a dense sample, or the bound of a sparse index
  bool is_sparse = false;
  ElementType type = ElementType::kFloat32;
  bool defines_mb_size = false;
};

struct CtfFormat {
  std::vector<CtfStream> streams;
  bool skip_sequence_ids = false;  // every line is a sequence of one sample
  bool allow_blank_lines = false;
  bool allow_nonfinite = false;  // inf and nan are numbers
  std::uint64_t max_line_bytes = std::uint64_t{256} << 20;
};

// Throws std::invalid_argument when the streams cannot be read from such a file.
void check(const CtfFormat& format);

}  // namespace sweephand
