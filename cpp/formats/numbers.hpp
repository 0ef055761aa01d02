// Runs of ordinary numbers in text. Any other number ends a run, and is read by
// formats/decimal.hpp, which gives the same bits.
//
//   |x 1.5 -2 0.25 1e9        |x 7:1.5 12:-2  30:1
//     \__________/              \__________/
//       numbers                     pairs
//
// Ordinary is one space, then a number as decimal::read_marked reads it; in a pair it follows
// an index of at most eight digits that is below the dimension.
#pragma once

#include "base/element.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

inline constexpr std::size_t kNumberPadding = 80;  // bytes behind the text that may be read

struct NumberRun {
  const char* end = nullptr;  // of the last number, or where it would begin
  std::size_t count = 0;
};

// Where the numbers of a run go; there is room for so many.
template <class T>
struct NumberRoom {
  T* values = nullptr;
  std::int32_t* indices = nullptr;  // of pairs
  std::size_t count = 0;
};

// REQUIRES: kNumberPadding bytes after the text are readable, and a line ends before them
template <std::floating_point T>
NumberRun read_numbers(const char* text, NumberRoom<T> room) noexcept;

// The same. REQUIRES: dimension is at most 2^31
template <std::floating_point T>
NumberRun read_pairs(const char* text, std::uint64_t dimension, NumberRoom<T> room) noexcept;

// The ways to do so: for every processor, and for one with cpu().avx2.
namespace numbers {

template <std::floating_point T>
NumberRun read_numbers_portable(const char* text, NumberRoom<T> room) noexcept;
template <std::floating_point T>
NumberRun read_pairs_portable(const char* text, std::uint64_t dimension,
                              NumberRoom<T> room) noexcept;
template <std::floating_point T>
NumberRun read_numbers_avx2(const char* text, NumberRoom<T> room) noexcept;
template <std::floating_point T>
NumberRun read_pairs_avx2(const char* text, std::uint64_t dimension,
                          NumberRoom<T> room) noexcept;

}  // namespace numbers

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
//
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
