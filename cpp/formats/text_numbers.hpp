// Cells of a text table as numbers, each separately: the value of a cell depends on its text
// and on the declared type, never on other cells.
//
//   integer  [ "+" | "-" ] digit+
//   decimal  [ "+" | "-" ] ( digit+ [ "." digit* ] | "." digit+ ) [ ("e" | "E") [ "+" | "-" ]
//            digit+ ], or nan, inf, infinity in any case, with a sign
//   word     true, True, TRUE, false, False, FALSE
//
// Blanks and tabs around it are skipped. An integer is exact, also as a float; a decimal is the
// float nearest to its text, and no integer.
#pragma once

#include "base/element.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// The error in a cell.
enum class CellFault : std::uint8_t {
  kNone,
  kEmpty,
  kWord,     // true or false where a number is wanted
  kShape,    // neither a number nor such a word
  kDecimal,  // where an integer is wanted
  kRange,    // beyond the largest value of the type
  kInexact,  // an integer that the float cannot hold
  kNoFlag,   // a number other than 0 and 1 where true and false are wanted
};

struct TextNumbers {
  std::vector<std::uint8_t> values;  // bytes, of the type that stored_as names
  std::vector<std::uint8_t> faults;  // a CellFault for every cell, whose value is then zero
};

// The type in which numbers that become `wanted` are stored: itself, but float64 for the floats
// of 16 bits, which are rounded once when they are delivered.
ElementType stored_as(ElementType wanted) noexcept;

// Cell i is text[offsets[i], offsets[i + 1]). Throws std::invalid_argument when offsets reach
// outside of the text, or `wanted` is opaque.
TextNumbers read_text_numbers(std::span<const char> text, std::span<const std::int64_t> offsets,
                              ElementType wanted);

}  // namespace sweephand
