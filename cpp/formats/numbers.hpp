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

#include <concepts>
#include <cstddef>
#include <cstdint>

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
}  // namespace sweephand
