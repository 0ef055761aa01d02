// The passes of `resize` with AVX2: the same bits.
#pragma once

#ifdef __x86_64__

#include "base/filter_kernel.hpp"
#include "base/resize.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sweephand {

// Weights as pairs of 16 bits, of which one instruction sums the products: a weight is
// high * 2^15 + low. For each place and four taps of it, 16 lows, then 16 highs:
//
//   l0 l1 l0 l1 l0 l1 l0 l1 | l2 l3 l2 l3 l2 l3 l2 l3      one pair for each byte of a pixel
std::vector<std::int16_t> pairs_of(const FilterKernel& kernel);

// See those of resize.cpp. `pairs` are those of the kernel.
void weigh_row_avx2(const std::uint8_t* row, const FilterKernel& kernel,
                    const std::int16_t* pairs, std::uint8_t* out) noexcept;
void weigh_rows_avx2(const WeighedRows& rows, std::uint8_t* out) noexcept;

}  // namespace sweephand

#endif
