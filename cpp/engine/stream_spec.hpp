// How streams are delivered.
#pragma once

#include "base/element.hpp"

#include <cstdint>
#include <string>

namespace sweephand {

// A stream as it is delivered.
struct StreamSpec {
  std::string name;
  std::uint32_t member = 0;
  std::uint32_t column = 0;
  ElementType type = ElementType::kOpaque;
  std::uint32_t element_bytes = 0;
  bool variable = false;   // samples of several elements each: sparse ones, byte strings
  bool sparse = false;     // elements have indices
  std::uint64_t head = 0;  // the most elements of a sample that are delivered, of byte strings;
                           // 0: all
  std::uint64_t sample_elements = 1;  // of samples that are not variable
  bool broadcast = false;  // its one sample is repeated for every sample of the sequence
  bool single = false;     // one sample per sequence: values one behind the other in any form
  bool carried = false;   // a length of its own, beside rows and grids: one behind the other in
                          // any form, with the first piece of a sequence
  bool counts = false;    // a sequence is as long as the longest of the streams that count
  std::string pad_value;  // element_bytes bytes

  // Samples come one after the other, in every form.
  bool is_ragged_in_all_forms() const noexcept { return single || carried; }

  // Of an element, if samples are variable.
  std::uint64_t sample_bytes() const noexcept {
    return variable ? element_bytes : sample_elements * element_bytes;
  }
};

enum class Form : std::uint8_t {
  kRagged,  // values one behind the other
  kPadded,  // a row per sequence, as wide as the longest one
  kRows,    // pieces in rows, as the plan says
};

struct AssembleOptions {
  Form form = Form::kRagged;
  bool pad_left = false;          // padding stands before the sequence
  std::uint32_t multiple_of = 1;  // widths are rounded up to a multiple of it
  bool segments = false;          // rows come with segment and position ids

  std::uint64_t rounded_up(std::uint64_t width) const noexcept {
    return (width + multiple_of - 1) / multiple_of * multiple_of;
  }
};

}  // namespace sweephand
