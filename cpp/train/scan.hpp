// The inner loop of `unscale`: one run of elements, as plain code and by the machine's
// instructions. Both add up in the same order and so give the same bits:
//
//   elements   | row 0: e0 e1 ... | row 1 | ... | last row, filled up with zeros |
//   lane j     takes element j, j + kLanes, j + 2 kLanes ... of every row
//
// In a row each lane adds up squares that are exact (see Layout); rows are added in double,
// and at the end the lanes in a fixed tree.
#pragma once

#include "base/element.hpp"
#include "train/tensor.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sweephand {

// The change of every element.
enum class Change : std::uint8_t { kNone, kMultiply, kDivide };

struct ScanRule {
  Change change;
  double operand;       // factor or divisor
  std::uint64_t limit;  // the magnitude, as stored bits, from which an element is not small
};

struct Scanned {
  double sum_of_squares = 0;  // of the elements as they came; not finite if one of them is not
  std::uint64_t num_large = 0;
};

// REQUIRES: run.size <= kPieceElements
Scanned scan(const Tensor& run, const ScanRule& rule);
Scanned scan_portable(const Tensor& run, const ScanRule& rule);
Scanned scan_avx2(const Tensor& run, const ScanRule& rule);  // REQUIRES: cpu().avx2

// How squares are added up. The square of a float16 is exact in float (22 bits, between 2^-48
// and 2^32), so eight of them may be added before they are widened; all others are squared in
// double, where the square of a float is exact.
template <class Element>
struct Layout {
  using Square = double;
  static constexpr std::size_t kLanes = 16;
  static constexpr std::size_t kRow = 16;
};

template <>
struct Layout<Float16> {
  using Square = float;
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kRow = 64;
};

// The bits of an element without its sign: their order is that of the magnitudes.
template <class Element>
typename Element::Bits magnitude(typename Element::Stored stored) noexcept {
  using Bits = typename Element::Bits;
  constexpr auto kAllButSign = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  return static_cast<Bits>(std::bit_cast<Bits>(stored) & kAllButSign);
}

template <std::size_t Count>
double add_lanes(std::array<double, Count> lanes) noexcept {
  for (std::size_t half = Count / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace sweephand
